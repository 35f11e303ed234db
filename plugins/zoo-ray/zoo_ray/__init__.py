"""Ray as an engine of Zoo."""
