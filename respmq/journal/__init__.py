"""An append-only log of facts, from which a broker comes back as it was."""
