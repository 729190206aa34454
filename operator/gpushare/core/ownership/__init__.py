"""Decides which pool a node belongs to, and whether labels that others change are restored."""
