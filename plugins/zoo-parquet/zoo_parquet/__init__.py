"""Parquet files for Zoo."""
