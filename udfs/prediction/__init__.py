"""New texts in the workers: texts in, labels out."""
