"""zoo report --html and zoo compare --html: one file each, with everything inside."""
