"""The cluster that a command reads: from the API server, or from a snapshot."""
