"""Frozen backbones: what they say of every picture, computed once and kept."""
