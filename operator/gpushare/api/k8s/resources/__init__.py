"""Amounts of resources of nodes, and of requests of pods."""
