"""Commands for generative models of Zoo."""
