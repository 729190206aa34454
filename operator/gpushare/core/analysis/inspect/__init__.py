"""What a cluster's cards hold: as `kubectl inspect gpushare` shows it, and pool by pool."""
