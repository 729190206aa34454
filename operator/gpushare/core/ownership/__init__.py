"""Which pool a node belongs to, and what becomes of labels that others write."""
