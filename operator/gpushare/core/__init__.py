"""Decisions. Pure: no I/O, no clock, no framework; equal inputs give equal answers."""
