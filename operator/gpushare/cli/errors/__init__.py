"""How commands fail: exit codes and sentences."""
