"""Job `retrieve`: the candidates of every retriever that the configuration names."""

if __name__ == "__main__":
    from jobs.cli import job_main

    job_main("retrieve")
