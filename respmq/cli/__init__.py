"""The command line: a server, a worker, a demonstration, a benchmark, and the tools for a journal."""

from __future__ import annotations

import click

from respmq.cli import bench, demo, journal, serve, worker
from respmq.version import __version__, is_compiled


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(
    f"{__version__}, {'compiled' if is_compiled() else 'not compiled'}",
    "--version",
    prog_name="respmq",
    message="%(prog)s %(version)s",
)
def main() -> None:
    """A message broker that speaks the Redis protocol: queues with leases, retries and dead letters."""


main.add_command(serve.serve)
main.add_command(worker.worker)
main.add_command(demo.demo)
main.add_command(bench.bench)
main.add_command(journal.check)
main.add_command(journal.export)
main.add_command(journal.import_)
