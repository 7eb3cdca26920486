"""Job `fuse`: fused rankings of the chosen cells, written as a table or as one file per cell."""

if __name__ == "__main__":
    from jobs.cli import job_main

    job_main("fuse")
