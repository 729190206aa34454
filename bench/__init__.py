"""What the operator costs and how fast it is: each module of this folder is a benchmark."""
