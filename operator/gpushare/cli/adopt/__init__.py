"""`gpushare adopt`."""
