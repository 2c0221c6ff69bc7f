"""Builds data directories with many tables, executes inserts and sysbench loads, and samples servers under load."""
