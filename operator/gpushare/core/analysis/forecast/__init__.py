"""What the controller will do to nodes, told before it is done."""
