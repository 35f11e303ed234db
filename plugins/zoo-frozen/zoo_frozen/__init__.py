"""Frozen backbones for Zoo: a pass over the images, then a head on their features."""
