"""Job `explain`: how each fused score of one text came about."""

if __name__ == "__main__":
    from jobs.cli import job_main

    job_main("explain")
