"""What is shown. Knows tables, not scenarios."""
