"""The stages of the retrievers: what `jobs.retrievers` runs."""
