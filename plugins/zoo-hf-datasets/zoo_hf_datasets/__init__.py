"""Datasets of the Hugging Face Hub for Zoo."""
