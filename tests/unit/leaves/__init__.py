"""Modules that come back as genuine ones."""
