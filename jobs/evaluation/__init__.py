"""From ranked lists to tables of figures."""
