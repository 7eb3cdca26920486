"""Job `train_dense`: texts and labels become vectors, and every fold gets a model of its own.

Vectors are kept in `vectors/<model>`, in chunks that are stages of their own: a run that was stopped goes on with
the first chunk that is missing, and texts that have not changed are not encoded again. `dense/model` holds, for
each fold, the projection heads (`train: projection`) or the fine-tuned model (`train: full`).
"""

if __name__ == "__main__":
    from jobs.cli import job_main

    job_main("train_dense")
