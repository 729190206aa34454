"""Turns failures of commands into exit codes and messages."""
