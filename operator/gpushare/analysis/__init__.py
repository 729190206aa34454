"""Read-only answers for users, made of the decisions of the controller."""
