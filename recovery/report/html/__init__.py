"""The report as one page for a browser: its parts, and the charts on it."""
