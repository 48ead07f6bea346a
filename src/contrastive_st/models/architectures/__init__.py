"""Encoders in files that are saved with checkpoints, and so import only torch, transformers and each other."""
