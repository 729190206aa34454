"""What decisions look at: a node and the cluster at one moment, and what can be done."""
