"""`gpushare freeze` and `unfreeze`."""
