"""`python -m zoo` is the same as `zoo`."""

from zoo_core.cli.start import main

if __name__ == "__main__":
    main()
