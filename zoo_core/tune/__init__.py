"""Search: which settings train best. docs/search.md shows how to use it."""
