"""Manifests of workloads that ask for whole cards, or select by an older edition's labels, as they
are to be where memory is shared by the Professional edition's labels."""
