"""Explains why a pod, a node or a pool is as it is, by the operator's own decisions."""
