"""Training: from a decided job to a finished run. Knows no framework."""
