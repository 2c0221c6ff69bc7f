"""What the host is, holds and can do."""
