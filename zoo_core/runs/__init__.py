"""Run directories: found, read, written, summarised."""
