"""Autoencoders that generate samples, for Zoo."""
