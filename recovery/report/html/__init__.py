"""Builds the HTML report: the page, its sections and its charts."""
