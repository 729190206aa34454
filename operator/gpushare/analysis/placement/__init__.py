"""Simulates which pods of a queue get a node and a card, on a cluster as it is or would be."""
