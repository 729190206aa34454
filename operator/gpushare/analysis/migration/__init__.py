"""Rewrites manifests that ask for whole cards, or select by an older edition's labels, to shared
memory and the Professional edition's labels."""
