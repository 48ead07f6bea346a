"""This package's encoders with the interfaces of other libraries; each needs the extra of its name."""
