"""Files of programs, good and bad."""
