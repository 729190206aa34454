"""The guides on GPU-sharing node pools, replayed as a user meets them, with the operator at work."""
