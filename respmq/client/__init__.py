"""The client of a broker over the network, on Trio: one pipelined RESP3 connection that is made anew when it breaks."""

from respmq.client.client import Client
from respmq.client.consumer import Consumer
from respmq.client.line import ConnectionEvent
from respmq.client.subscription import Subscription

__all__ = ["Client", "ConnectionEvent", "Consumer", "Subscription"]
