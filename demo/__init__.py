"""The guides on GPU-sharing node pools, replayed as a user meets them."""
