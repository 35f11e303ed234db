"""Frozen backbones for Zoo: a pass over the pictures, then a head on their features."""
