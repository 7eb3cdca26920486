"""The arithmetic of the retrievers: tokens, BM25 postings, contrastive training."""
