"""The command table: one decorated function per command, everything else derived from it."""
