"""Ensembles of models of Zoo, and students that learn from them."""
