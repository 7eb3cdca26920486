"""What every job needs around its work: a session, stages, folders, a log."""
