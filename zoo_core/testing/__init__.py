"""What plugin authors run in their own tests: see `zoo_core.testing.models`."""
