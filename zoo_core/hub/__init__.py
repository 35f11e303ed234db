"""Weights: where they come from, whether they are what they should be, and what is made of them."""
