"""Issues, checks and renews the webhook's certificates, without I/O."""
