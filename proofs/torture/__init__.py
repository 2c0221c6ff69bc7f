"""Kills the tool at random moments, and checks each time what is lost and what is left behind (`make torture`)."""
