"""The broker's commands on stock redis-py: `RespMQ` is a `redis.Redis`, `AsyncRespMQ` a `redis.asyncio.Redis`."""

try:
    from respmq.redis.asynchronous import AsyncJobs, AsyncRespMQ
    from respmq.redis.sync import Jobs, RespMQ
except ModuleNotFoundError as error:
    if error.name != "redis":
        raise
    msg = "respmq.redis needs redis-py, which is not installed: pip install 'respmq[redis]'"
    raise ModuleNotFoundError(msg, name="redis") from error

__all__ = ["AsyncJobs", "AsyncRespMQ", "Jobs", "RespMQ"]
