"""Computes the next step for a node: labels, an isolation change, its teardown, its release."""
