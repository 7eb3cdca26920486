"""What an evaluation leaves: the schemas of its tables, how they are computed and read back."""
