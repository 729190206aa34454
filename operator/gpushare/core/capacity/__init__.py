"""The GPU memory that cards offer, and how much of it is allocated."""
