"""Decides which nodes a pool has that wants a number of those that match."""
