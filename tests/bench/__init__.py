"""How fast and how small is the tool itself? Ratios taken side by side in one run; nothing here ever fails a test."""
