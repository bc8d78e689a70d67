"""The calls that a program makes, remembered so that calls from outside can be compared with them.

May import `flat`, `code.nesting` and `regions`.
"""
