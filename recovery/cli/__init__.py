"""Contains the commands of the command line, which turn arguments into calls and return an exit code."""
