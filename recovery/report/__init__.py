"""What is handed to others: a session in one archive, with nothing private in it."""
