"""Training: recipes, run directories, one loop, exact resume. Only the torch_* files know torch."""
