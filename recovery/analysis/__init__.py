"""Statistics, summaries, growth, comparisons and warnings. All of it is calculation: nothing is read or written."""
