"""Written models as they should be. `python -m tests.golden` writes them anew; look at the difference."""
