"""What the nightly run is made of: data checks, re-evaluation, baseline, history, lease, alerts, trend."""
