"""This package's encoders and indices as components of Haystack and LangChain, each behind an extra of its name."""
