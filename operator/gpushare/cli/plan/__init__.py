"""`gpushare plan`, `approve` and `retry`."""
