"""The torch framework and its trainers; the only folder of the core that imports torch."""
