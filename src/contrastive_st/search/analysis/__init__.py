"""Analysis of a collection: topics over time, near-duplicates."""
