"""Reads what users type: options, names, manifests."""
