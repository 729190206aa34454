"""The inputs of decisions, a node and the cluster at one moment, and the possible actions."""
