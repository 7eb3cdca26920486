"""Job `prepare`: a published dataset becomes the tables samples, labels and folds."""

if __name__ == "__main__":
    from jobs.cli import job_main

    job_main("prepare")
