"""Trained weights: who lists them, where they come from, whether they are what they should be."""
