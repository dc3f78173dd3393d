"""Which version of respmq this is, and in which form it is installed."""

from importlib.util import find_spec

__version__ = "0.1.0"


def is_compiled() -> bool:
    """Whether what runs for every message is compiled; if not, it does the same, but slower."""
    spec = find_spec("respmq.core.queue")
    return spec is not None and not str(spec.origin).endswith(".py")
