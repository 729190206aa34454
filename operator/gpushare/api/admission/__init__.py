"""Defines what admission reads besides the pools."""
