"""The models of Zoo in a browser."""
