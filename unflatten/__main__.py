"""`python -m unflatten` is the command line."""

from unflatten.cli import main

if __name__ == "__main__":
    main()
