"""An LSTM over the patches of a picture, for Zoo."""
