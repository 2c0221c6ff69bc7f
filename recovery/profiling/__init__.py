"""What was the server doing? Its stacks, taken from outside while it starts."""
