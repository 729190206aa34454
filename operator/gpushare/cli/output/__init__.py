"""Prints answers."""
