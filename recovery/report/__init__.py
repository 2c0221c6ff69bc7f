"""Turns a stored session into reports: text, Markdown, HTML, CSV, JSON and the terminal."""
