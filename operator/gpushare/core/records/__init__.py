"""What the operator remembers on a node, in annotations."""
