"""Reads the cluster for a command, from the API server or from a snapshot."""
