"""What holds of every program."""
