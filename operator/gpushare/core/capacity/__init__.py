"""What cards offer, and what of it is given out."""
