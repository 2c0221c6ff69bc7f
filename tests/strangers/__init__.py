"""Cases that were not made for the code: directories, loads and kills by a seed, compared with what is known of them."""
