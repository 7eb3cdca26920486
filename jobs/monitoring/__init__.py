"""What the nightly run is made of: re-evaluation, baseline, history, lock, trend."""
