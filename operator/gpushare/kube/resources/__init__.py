"""The objects that the operator reads and writes, a module a kind."""
