"""`gpushare inspect` and `gpushare snapshot`."""
