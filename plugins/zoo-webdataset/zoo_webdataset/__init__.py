"""Tar files in the form of WebDataset for Zoo."""
