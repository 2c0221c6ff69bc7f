"""A real mysqld: launched, watched, asked, killed."""
