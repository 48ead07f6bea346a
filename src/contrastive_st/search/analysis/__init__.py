"""Analysis of a collection: topics over time, a map, near-duplicates."""
