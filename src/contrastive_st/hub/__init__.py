"""Models to and from the Hub: cards, recipes, push, pull, and conversion of published checkpoints."""
