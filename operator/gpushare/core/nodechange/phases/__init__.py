"""What the rules of each phase decide; `machine.py` has their order."""
