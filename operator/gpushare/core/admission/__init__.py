"""Decides which pool a pod is assigned to, and why, from values alone."""
