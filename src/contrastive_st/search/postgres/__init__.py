"""Vectors inside PostgreSQL: the server, the schema, writes and queries."""
