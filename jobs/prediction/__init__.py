"""Models that label new texts: fitted, kept in one folder, applied."""
