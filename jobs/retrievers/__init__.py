"""The registry of retrievers, and retrievers of one's own."""
