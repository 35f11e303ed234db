"""Residual networks for Zoo."""
