"""Cases by a seed that were not made for the code: directories, loads and kills, and what is known of them."""
