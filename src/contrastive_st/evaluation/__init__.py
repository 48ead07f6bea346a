"""Evaluation: how good embeddings are, and what their space looks like."""
