"""Kubernetes objects, as far as they are read."""
