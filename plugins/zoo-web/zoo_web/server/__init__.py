"""zoo serve: a trained model behind HTTP."""
