"""respmq: a message broker that speaks the Redis protocol."""

__version__ = "0.1.0"
