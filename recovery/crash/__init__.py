"""Did a server that was killed keep its word? Who wrote what before the kill, and what of it is there afterwards."""
