"""Operators grouped into calls: the working drafts, what crosses their boundaries, their order.

May import `flat`, `ownership`, `effects`, `state` and `signatures`.
"""
