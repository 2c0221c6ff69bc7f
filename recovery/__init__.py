"""Measures how long a MySQL server takes to come back after a crash, on this storage, in this version, and why."""

from __future__ import annotations

__version__ = "1.0.0"
