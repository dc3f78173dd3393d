"""The broker itself: queues, messages, leases and time. No Trio, no RESP, no clock of its own."""
