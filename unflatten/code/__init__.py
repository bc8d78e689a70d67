"""What calls compute, in terms of their modules: bodies, and the Python and fx graphs that they become.

May import `grouping` and all that it may import.
"""
