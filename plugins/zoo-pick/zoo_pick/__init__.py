"""Chooses a model of Zoo for somebody's own images."""
