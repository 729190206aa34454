"""The rules of each phase; `state_machine.py` has their order."""
