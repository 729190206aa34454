"""The records that the operator keeps on a node, in annotations."""
