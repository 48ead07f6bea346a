"""How embeddings are judged: one file a kind of task."""
