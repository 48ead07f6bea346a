"""Encoders in self-contained files that travel with a checkpoint: they import torch, transformers, each other."""
