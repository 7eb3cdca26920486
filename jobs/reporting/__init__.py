"""How results are shown: tables, charts and the page. Everything here prints what `data` holds."""
