"""Workers, which run a function over a queue, and publishers, which hand on what comes of it."""
