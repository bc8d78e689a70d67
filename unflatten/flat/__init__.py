"""A program as a flat list of operators: the values, how they are read, and what operators do.

May import `paths`, `scopes`, `errors` and `_torch`. Nothing here knows of calls as units.
"""
