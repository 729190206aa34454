"""Shows what a cluster's cards hold: as `kubectl inspect gpushare` does, and pool by pool."""
