"""Job `run`: from a dataset's files to the figures of the whole grid and their report.

What is done already is not done again.
"""

if __name__ == "__main__":
    from jobs.cli import job_main

    job_main("run")
