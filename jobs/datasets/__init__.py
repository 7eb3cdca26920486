"""Published datasets: how they are read, and the tables that `prepare` makes of them."""
