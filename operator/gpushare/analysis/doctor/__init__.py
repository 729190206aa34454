"""Finds what is wrong with an installation, its pools and its nodes."""
