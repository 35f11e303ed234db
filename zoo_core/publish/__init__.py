"""Publishing weights: the card, the commit, the copy inside a package."""
