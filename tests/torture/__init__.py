"""Kills the tool at random moments, over and over, and looks each time what is lost and what is left (`make torture`)."""
