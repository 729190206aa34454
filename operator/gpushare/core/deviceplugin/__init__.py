"""Checks whether the device plugins of a node serve its mode."""
