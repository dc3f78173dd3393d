"""The server: sessions, the reactor, and what clients can ask about them."""
