"""What is wrong in a dataset of Zoo, and which labels probably are."""
