"""What users give to others: the bundle of a session, with a bug report, a script that repeats the test, and an
archive."""
