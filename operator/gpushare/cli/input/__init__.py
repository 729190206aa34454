"""What users type: options, names, manifests."""
