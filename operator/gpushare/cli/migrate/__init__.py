"""`gpushare migrate`."""
