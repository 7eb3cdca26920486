"""Job `evaluate`: from candidates and judgements straight to the metrics of every chosen cell."""

if __name__ == "__main__":
    from jobs.cli import job_main

    job_main("evaluate")
