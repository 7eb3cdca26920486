"""Job `report`: tables, charts and one page from the results of one or several evaluations. Needs no Spark."""

if __name__ == "__main__":
    from jobs.cli import job_main

    job_main("report")
