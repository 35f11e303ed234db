"""The working parts of Zoo. Users and plugin authors import `zoo`; this package may change."""
