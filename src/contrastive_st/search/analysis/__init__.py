"""What a collection holds: topics over time, a map, near-duplicates, what made a hit."""
