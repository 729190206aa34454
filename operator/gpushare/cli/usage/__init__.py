"""`gpushare usage`: what pods asked for, what they used, and who held it."""
