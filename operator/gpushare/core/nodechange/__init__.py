"""What one node needs next: labels, an isolation change, its teardown, its release."""
