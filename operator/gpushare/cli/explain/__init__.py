"""`gpushare explain`."""
