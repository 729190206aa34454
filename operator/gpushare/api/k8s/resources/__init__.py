"""Amounts of resources, as nodes have them and pods request them."""
