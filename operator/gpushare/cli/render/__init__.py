"""`gpushare render`."""
