"""Where a pod would run, as the schedulers decide it."""
