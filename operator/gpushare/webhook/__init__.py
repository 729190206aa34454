"""Admission of pods: a server of our own that answers from memory."""
