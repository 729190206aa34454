"""Access to the API server: thin, typed calls; no decision is made here."""
