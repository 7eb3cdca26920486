"""Job `doctor`: what is wrong with an installation, from Java to the last executor, and what to do about it."""

if __name__ == "__main__":
    from jobs.cli import job_main

    job_main("doctor")
