"""What a person looks at: tables, plots and the report of a run."""
