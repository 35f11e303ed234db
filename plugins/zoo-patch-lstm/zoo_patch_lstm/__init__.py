"""An LSTM over the patches of an image, for Zoo."""
