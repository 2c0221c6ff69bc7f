"""Measures how fast the tool itself is, as ratios that are measured side by side (`make bench`)."""
