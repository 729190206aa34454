"""The decisions for all pools, made again for the nodes to which something happened."""
