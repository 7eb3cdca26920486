"""The jobs: read tables, transform, write tables. Each can be run from the command line or called with a session."""
