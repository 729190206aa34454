"""`gpushare simulate`."""
