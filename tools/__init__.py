"""Scripts that write and check parts of the project."""
