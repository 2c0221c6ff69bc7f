"""What reads the texts of others, under a fuzzer. Nothing is imported here: that would be before the fuzzer looks."""
