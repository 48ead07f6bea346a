"""Checkpoint folders: found by path or Hub name, and looked at before anything in them is opened."""
