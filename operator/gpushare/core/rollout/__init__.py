"""Decides which nodes of a pool may change now."""
