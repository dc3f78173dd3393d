"""The full cycle of a job (put, lease, ack), measured on respmq and on Redis by one client in one run."""
