"""Self-supervised pretraining for Zoo."""
