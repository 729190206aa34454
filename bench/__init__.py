"""Benchmarks of the operator's cost and speed, one module each."""
