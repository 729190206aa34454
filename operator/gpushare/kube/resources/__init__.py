"""The kinds of objects that the operator reads and writes, one module each."""
