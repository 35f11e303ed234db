"""The torch framework and its trainers; the only folder of the core that imports torch."""

from zoo_core.io.process import calm_threads

calm_threads()  # before anything here imports torch
