"""INFO: the server in figures, as `name:value` lines in sections."""

from __future__ import annotations

import dataclasses
import os
import platform
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from respmq.commands.arguments import BLOB, NONE_NEEDED, Described
from respmq.commands.context import Context
from respmq.commands.describe import shown_name
from respmq.commands.registry import command
from respmq.commands.replies import VERBATIM
from respmq.core.stats import QueueStats
from respmq.resp.values import Verbatim
from respmq.version import REDIS_VERSION, __version__, is_compiled

if TYPE_CHECKING:
    from collections.abc import Callable

#: The lines of a section, values as they are shown.
Section = dict[str, object]

_DAY = 86_400

#: Of how many queues INFO tells: to tell of very many would keep everybody waiting.
_MOST_QUEUES = 2_000
_QUEUE_FIELDS = [field.name for field in dataclasses.fields(QueueStats) if field.name != "name"]


def _server(ctx: Context) -> Section:
    server = ctx.server
    system = platform.uname()
    path = server.config.path
    return {
        "redis_version": REDIS_VERSION,
        "respmq_version": __version__,
        "respmq_compiled": int(is_compiled()),
        "redis_mode": "standalone",
        "os": f"{system.system} {system.release} {system.machine}",
        "arch_bits": 64 if sys.maxsize > 1 << 32 else 32,
        "python_version": platform.python_version(),
        "process_id": os.getpid(),
        "run_id": server.run_id,
        "tcp_port": next((a.rpartition(":")[2] for a in server.listening if not a.startswith("unix:")), 0),
        "server_time_usec": ctx.engine.now * 1000,
        "uptime_in_seconds": server.uptime,
        "uptime_in_days": server.uptime // _DAY,
        "executable": sys.executable,
        "config_file": "" if path is None else Path(path).resolve(),
        **{f"listener{number}": address for number, address in enumerate(server.listening)},
    }


def _clients(ctx: Context) -> Section:
    return {
        "connected_clients": ctx.server.connections,
        "maxclients": ctx.server.config.maxclients,
        "blocked_clients": ctx.server.blocked_clients,
    }


def _memory(ctx: Context) -> Section:
    used, resident, limit = ctx.engine.used_memory, resident_memory(), ctx.server.config.maxmemory
    return {
        "used_memory": used,
        "used_memory_human": _human(used),
        "used_memory_rss": resident,
        "used_memory_rss_human": _human(resident),
        "maxmemory": limit,
        "maxmemory_human": _human(limit),
        "maxmemory_policy": "noeviction",
    }


def _persistence(ctx: Context) -> Section:
    durable = ctx.server.durable
    section: Section = {"loading": int(ctx.server.loading is not None), "async_loading": 0}
    if durable is None:
        return {**section, "aof_enabled": 0}
    return {
        **section,
        "aof_enabled": 1,
        "appendfsync": ctx.server.config.fsync,
        "rdb_last_save_time": durable.saved_at // 1000,
        **durable.describe_journal(),
    }


def _stats(ctx: Context) -> Section:
    server = ctx.server
    calls, _ = server.call_counts()
    stats = ctx.engine.broker_stats()
    return {
        "total_connections_received": server.total_connections,
        "total_commands_processed": calls,
        "instantaneous_ops_per_sec": server.calls_per_second(),
        "total_net_input_bytes": server.input_bytes,
        "total_net_output_bytes": server.output_bytes,
        "rejected_connections": server.rejected_connections,
        "total_error_replies": sum(server.errors.values()),
        "acl_access_denied_auth": server.failed_logins,
        "pubsub_channels": len(ctx.engine.topics.channels.names()),
        "pubsub_patterns": ctx.engine.topics.pattern_count,
        "pubsubshard_channels": len(ctx.engine.topics.shards.names()),
        "binding_drops": stats.binding_drops,
        "event_drops": server.event_drops,
    }


def _replication(ctx: Context) -> Section:
    return {
        "role": "master",
        "connected_slaves": 0,
        "master_failover_state": "no-failover",
        "master_replid": ctx.server.run_id,
        "master_repl_offset": 0,
    }


def _cpu(ctx: Context) -> Section:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "used_cpu_sys": f"{own.ru_stime:.6f}",
        "used_cpu_user": f"{own.ru_utime:.6f}",
        "used_cpu_sys_children": f"{children.ru_stime:.6f}",
        "used_cpu_user_children": f"{children.ru_utime:.6f}",
    }


def _commandstats(ctx: Context) -> Section:
    lines: Section = {}
    for stats in ctx.server.calls:
        if stats.calls or stats.rejected:
            micros = stats.nanos // 1000
            each = stats.nanos / 1000 / stats.calls if stats.calls else 0
            lines[f"cmdstat_{shown_name(stats.spec)}"] = (
                f"calls={stats.calls},usec={micros},usec_per_call={each:.2f},"
                f"rejected_calls={stats.rejected},failed_calls={stats.failed}"
            )
    return lines


def _errorstats(ctx: Context) -> Section:
    return {f"errorstat_{code}": f"count={count}" for code, count in sorted(ctx.server.errors.items())}


def _cluster(ctx: Context) -> Section:
    return {"cluster_enabled": 0}


def _keyspace(ctx: Context) -> Section:
    queues = ctx.engine.broker_stats().queues
    return {"db0": f"keys={queues},expires=0,avg_ttl=0"} if queues else {}


def _queues(ctx: Context) -> Section:
    """A line for each of the first queues. A `:` in its name is written `%3A`, since it ends the name of a line."""
    lines: Section = {}
    names = ctx.engine.names()
    for name in names[:_MOST_QUEUES]:
        stats = ctx.engine.stats(name)
        values = ",".join(f"{field}={getattr(stats, field) or 0}" for field in _QUEUE_FIELDS)
        lines[f"queue_{name.decode().replace(':', '%3A')}"] = values
    if len(names) > _MOST_QUEUES:
        lines["queues_left_out"] = len(names) - _MOST_QUEUES
    return lines


_SECTIONS: dict[str, Callable[[Context], Section]] = {
    "server": _server,
    "clients": _clients,
    "memory": _memory,
    "persistence": _persistence,
    "stats": _stats,
    "replication": _replication,
    "cpu": _cpu,
    "commandstats": _commandstats,
    "errorstats": _errorstats,
    "cluster": _cluster,
    "keyspace": _keyspace,
    "queues": _queues,
}
_EVERYTHING = frozenset(_SECTIONS)
_ALL = _EVERYTHING - {"queues"}
_DEFAULT = _ALL - {"commandstats"}
_WORDS = {"everything": _EVERYTHING, "all": _ALL, "default": _DEFAULT}


@command(
    "INFO",
    group="server",
    reply=VERBATIM,
    flags=("loading", "stale"),
    categories=("dangerous",),
    complexity="O(1); O(N) with N queues for the section queues",
)
def info(
    ctx: Context,
    *sections: Annotated[
        bytes,
        BLOB,
        NONE_NEEDED,
        Described("Names of sections; `all` for all but that of the queues, `everything` for all, none for the usual."),
    ],
) -> Verbatim:
    """Returns the server's figures, in sections."""
    wanted: set[str] = set()
    for section in sections:
        name = section.decode("ascii", "replace").lower()
        wanted |= _WORDS.get(name, {name})
    if not sections:
        wanted |= _DEFAULT
    texts: list[str] = []
    for name, lines in _SECTIONS.items():
        if name in wanted:
            shown = "".join(f"{key}:{value}\r\n" for key, value in lines(ctx).items())
            texts.append(f"# {'CPU' if name == 'cpu' else name.capitalize()}\r\n{shown}")
    return Verbatim("\r\n".join(texts))


def resident_memory() -> int:
    """Bytes of memory that the process has; at most so far where the system doesn't say how many it has now."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
    return pages * resource.getpagesize()


def _human(size: int) -> str:
    """Bytes as Redis shows them: 1015B, 12.50K, 3.00M."""
    power = min(max(size.bit_length() - 1, 0) // 10, 4)
    return f"{size / 1024**power:.2f}{'BKMGT'[power]}" if power else f"{size}B"
