"""Random modules: what they do (plans), as Python (writing), as a value that is tested (dag)."""
