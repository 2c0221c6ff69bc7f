"""A session: request, plan, data directories, the run loop, resuming, the store and progress."""
