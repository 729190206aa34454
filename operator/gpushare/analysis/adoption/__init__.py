"""Derives from the labels of a cluster the pools that describe it; all pure."""
