"""Controllers of other projects that run beside the operator."""
