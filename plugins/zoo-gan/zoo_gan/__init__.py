"""Generative adversarial networks for Zoo."""
