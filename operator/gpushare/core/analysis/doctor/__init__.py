"""What is wrong with an installation and with the nodes: findings, from what was read."""
