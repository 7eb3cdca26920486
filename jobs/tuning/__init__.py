"""What `tune` is made of: validation texts, choices, learned fusions, and the tables and the file that tell of them."""
