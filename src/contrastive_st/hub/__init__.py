"""Models to and from the Hub: cards, training metadata, push, pull, and conversion of published checkpoints."""
