"""What authors of plugins need: a package to start from, and the checks of what they wrote."""
