"""Pools as Kueue's flavors and queues, and what is wrong between the two."""
