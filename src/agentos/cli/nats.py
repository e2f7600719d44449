from __future__ import annotations

import typer

from agentos.cli.output import AsJson, print_json

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)

_JETSTREAM = """\
# Add to every server of the cluster, beside its own listen and cluster blocks:
#
# jetstream {
#   store_dir: "/var/lib/nats"
#   # The default acknowledges up to two minutes before the disk has the message.
#   sync_interval: always
# }
"""


@app.command()
def config(as_json: AsJson = False) -> None:
    """What nats-server.conf of an external NATS must hold, so that it trusts this installation."""
    from agentos.cli.machine import secret_key
    from agentos.kernel.installation import bus_authority
    from agentos.kernel.settings import load_settings

    trust = bus_authority(secret_key(load_settings())).cluster_config()
    if as_json:
        print_json({"config": trust})
    else:
        print(f"{_JETSTREAM}\n{trust}", end="")
