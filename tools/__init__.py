"""Generates parts of the repository, and checks the repository itself.

Nothing imports it but tests: what a run of the operator or of the control plane needs is elsewhere.
"""
