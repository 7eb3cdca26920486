"""What `fuse` and `evaluate` read: runs, judgements, label groups and folds."""
