"""Makes the decisions for all pools, again for each node that changed."""
