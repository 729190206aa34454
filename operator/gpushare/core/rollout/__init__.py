"""Which nodes of a pool may change now."""
