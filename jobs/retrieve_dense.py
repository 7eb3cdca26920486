"""Job `retrieve_dense`: the labels nearest to every fold's test and validation texts, head and tail separately.

`dense/index` holds the label vectors of each fold, made of names and of the fold's training texts; `candidates/dense`
the ranked labels of these texts. What `train_dense` has not done yet is done first.
"""

if __name__ == "__main__":
    from jobs.cli import job_main

    job_main("retrieve_dense")
