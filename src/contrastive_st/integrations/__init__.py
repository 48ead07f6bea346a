"""Other libraries' interfaces over this package's encoders, each behind an extra of its name."""
