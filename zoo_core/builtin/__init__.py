"""What the zoo brings itself, registered through the same hooks as everybody else's plugins."""
