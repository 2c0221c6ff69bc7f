"""`python -m recovery` is the `recovery` command."""

from recovery.cli import main

if __name__ == "__main__":
    main()
