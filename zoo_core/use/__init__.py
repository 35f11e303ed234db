"""What one does with a trained model: load, predict, evaluate, generate, explain."""
