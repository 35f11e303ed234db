"""Datasets of photographs, to try what the zoo does with your own."""
