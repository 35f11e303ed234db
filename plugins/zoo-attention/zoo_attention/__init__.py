"""Where the transformers of Zoo look."""
