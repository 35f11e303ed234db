"""Searches: many trainings, and which of them is the best."""
