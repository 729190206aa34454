"""What a process says about itself: metrics, probes and logs."""
