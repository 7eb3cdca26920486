"""Job `tune`: the best fusion for the data, chosen and learned on validation texts and applied once to test texts."""

if __name__ == "__main__":
    from jobs.cli import job_main

    job_main("tune")
