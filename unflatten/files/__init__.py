"""Files of exported programs, read without running what their writers may have put into them.

What `torch.export.load` reads can run code in more ways than by pickles: expressions of sizes are evaluated, guards
are compiled, names become source. So everything is looked at first, and only what can't do harm is loaded.
"""

from unflatten.files.reading import load as load

__all__ = ["load"]
