"""Images: where they come from, how they are kept, split, augmented and made into batches."""
