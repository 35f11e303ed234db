"""What a model, a dataset and a trainer are: entries, recipes, hooks, plugins, the registry."""
