"""The webhook's certificates: what they are, and when they need replacing. No I/O."""
