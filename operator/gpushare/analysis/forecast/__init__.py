"""Forecasts what the controller will do to nodes."""
