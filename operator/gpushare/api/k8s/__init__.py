"""Parsers of Kubernetes objects, for the fields that decisions need."""
