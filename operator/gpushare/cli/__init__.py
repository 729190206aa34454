"""The command line: starts processes, and answers users."""
