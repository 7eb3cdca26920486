"""How results are shown: tables, figures and the page. Everything here prints what `data` holds."""
