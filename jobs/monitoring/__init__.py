"""What a night is made of: data checks, re-evaluation, baseline, history, lease, alerts, trend."""
