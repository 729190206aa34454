"""`gpushare doctor`."""
