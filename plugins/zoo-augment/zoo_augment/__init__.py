"""Colour jitter, TrivialAugment and RandAugment."""
