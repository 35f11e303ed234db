"""Reports and comparisons of runs, for people. Only pictures.py needs matplotlib."""
