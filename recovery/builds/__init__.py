"""Finds, fetches and unpacks the servers to test, and makes images of them."""
