"""What the benchmarks share: a cluster of their own, thousands of nodes, processes and pods."""
