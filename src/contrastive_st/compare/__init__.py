"""Which encoder is best for a folder, a file, a table or a collection: `contrastive-st compare`."""
