"""Steps of `prepare`: published files become texts with labels, and these become the prepared tables."""
