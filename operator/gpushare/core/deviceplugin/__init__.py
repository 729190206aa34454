"""Whether the device plugins of a node do what its mode says."""
