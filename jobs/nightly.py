"""Job `nightly`: re-evaluate every dataset, compare with the baseline, alarm if a figure fell or the data moved.

The verdict is decided, recorded and sent first. What goes wrong afterwards is reported with it and changes nothing.
"""

if __name__ == "__main__":
    from jobs.cli import job_main

    job_main("nightly")
