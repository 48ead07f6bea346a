"""Another model for an index that goes on answering: a sample, the move, and the same for folders."""
