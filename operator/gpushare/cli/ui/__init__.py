"""`gpushare ui`: one page on 127.0.0.1 that draws the pools, and writes nothing."""
