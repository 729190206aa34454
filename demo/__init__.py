"""Replays the guides on GPU-sharing node pools as a user follows them."""
