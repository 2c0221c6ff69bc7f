"""The commands behind the command line: arguments in, calls, exit code out."""
