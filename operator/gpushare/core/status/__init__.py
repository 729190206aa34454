"""Builds what users see of a pool: its status, its plan, its Events."""
