"""The API server: thin verbs, typed in and out; no decision is made here."""
