"""A broker in the program's own process, and small queues for scripts without an event loop."""
