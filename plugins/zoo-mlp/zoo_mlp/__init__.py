"""A multi-layer perceptron for Zoo."""
