"""Compares how much memory of cards pods asked for with how much they used. No calls."""
