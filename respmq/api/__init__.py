"""The words in which Python programs speak to a broker, whether it is in their own process or behind a network."""
