"""Ray is installed by make test-slow only."""

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("zoo_ray") else ["test_*.py"]
