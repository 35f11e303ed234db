"""Where in images models of Zoo found their answers."""
