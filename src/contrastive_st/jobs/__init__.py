"""Complete jobs, from arguments to a reported checkpoint: what the examples and the command line run."""
