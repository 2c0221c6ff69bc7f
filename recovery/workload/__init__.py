"""What is put into a server: schemas and inserts."""
