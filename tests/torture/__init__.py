"""Kills the tool at random moments, and looks each time what is lost and what is left (`make torture`)."""
