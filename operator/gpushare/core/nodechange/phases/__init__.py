"""The rules of each phase; `machine.py` has their order."""
