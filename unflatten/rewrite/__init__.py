"""Rewrites of modules and graphs, one a file; each says in its docstring when it is legal.

A rewrite either succeeds or leaves everything as it was.
"""
