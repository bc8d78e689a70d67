"""Tests of the source writer."""
