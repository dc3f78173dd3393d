"""What this is called, in which version, and in which form it is installed."""

from importlib.util import find_spec
from typing import Final

#: What the server says that it is.
NAME: Final = "respmq"

__version__ = "0.1.0"

#: The version of Redis whose commands and replies are spoken. Client libraries compare it, so it has to be numeric.
REDIS_VERSION: Final = "7.2.0"


def is_compiled() -> bool:
    """Whether what runs for every message is compiled; if not, it does the same, but slower."""
    spec = find_spec("respmq.core.queue")
    return spec is not None and not str(spec.origin).endswith(".py")
