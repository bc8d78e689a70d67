"""Measurements beside torch's own unflatten."""
