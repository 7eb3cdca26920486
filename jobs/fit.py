"""Job `fit`: what was chosen over folds, fitted once on all labelled texts, as a model that labels new ones."""

if __name__ == "__main__":
    from jobs.cli import job_main

    job_main("fit")
