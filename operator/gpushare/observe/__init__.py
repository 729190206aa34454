"""Metrics, probes and logs of a process."""
