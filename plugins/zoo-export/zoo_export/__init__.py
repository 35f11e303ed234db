"""Trained models of Zoo as files of other programs."""
