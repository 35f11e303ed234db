"""Searches of Zoo on machines that one reaches by ssh."""
