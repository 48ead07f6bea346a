"""Another model for an index that goes on answering: a sample, and the move."""
