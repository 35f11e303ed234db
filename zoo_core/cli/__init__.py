"""The command line: commands in families, a module each, imported when one is used."""
