"""Vision transformers for Zoo."""
