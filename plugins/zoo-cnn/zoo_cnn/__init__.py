"""Small convolutional networks for Zoo."""
