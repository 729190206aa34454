"""Parts that benchmarks share: a cluster, thousands of nodes, processes and pods."""
