"""Autoencoders that generate pictures, for Zoo."""
