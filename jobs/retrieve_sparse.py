"""Job `retrieve_sparse`: BM25 candidates of every fold's test and validation texts, from an index of its training
texts alone.

For each fold two stages, so that a run that was stopped goes on where it was: `bm25/index/fold=N` holds the index,
`bm25/lists/fold=N` the ranked labels of the test texts and, as a stage of their own, those of the validation texts lie
in `bm25/validation_lists/fold=N`. `candidates/bm25` is all folds together. The retriever
`bm25-labels` has the same stages below its own name.
"""

if __name__ == "__main__":
    from jobs.cli import job_main

    job_main("retrieve_sparse")
