"""Named examples, one file for each kind of fault."""
