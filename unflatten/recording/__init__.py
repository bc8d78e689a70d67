"""Recording how modules are called while a model is exported, and reading such records back.

A record is a string of JSON in the program's own metadata, so that it survives whatever the program survives.
"""
