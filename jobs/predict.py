"""Job `predict`: a model labels new texts."""

if __name__ == "__main__":
    from jobs.cli import job_main

    job_main("predict")
