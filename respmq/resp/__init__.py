"""The wire: bytes to requests, and answers to bytes. No sockets, no commands."""
