"""From the labels of a cluster to the pools that describe it; all pure."""
