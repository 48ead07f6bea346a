"""Another model for an index that goes on answering: a map between two models, what it is worth, and the move."""
