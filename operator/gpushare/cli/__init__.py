"""The command line: process roles, and what people read."""
