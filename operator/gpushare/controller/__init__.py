"""The active part: watches, decides and writes."""
