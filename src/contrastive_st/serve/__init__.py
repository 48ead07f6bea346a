"""Servers: the search page for the browser, and embeddings over HTTP."""
