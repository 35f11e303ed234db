"""The working parts of Zoo. Users and plugin authors import `zoo`; this package may change."""

__version__ = "0.1.0"
