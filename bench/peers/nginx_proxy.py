"""Peer: nginx as a reverse proxy with connections to the upstream kept alive. The limit, in effect."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.pinned import SERVER_CORE, pinned
from bench.stack import free_port

# One process that serves, without a master above it. Buffering is off, or streams would stall.
_CONFIG = """
daemon off;
master_process off;
pid {place}/nginx.pid;
error_log stderr error;
events {{ worker_connections 2048; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    client_body_temp_path {place}/body;
    proxy_temp_path {place}/proxy;
    fastcgi_temp_path {place}/fastcgi;
    uwsgi_temp_path {place}/uwsgi;
    scgi_temp_path {place}/scgi;
    upstream models {{
        server 127.0.0.1:{upstream};
        keepalive 256;
        keepalive_requests 1000000000;
    }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://models;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
        }}
    }}
}}
"""


def installed() -> str | None:
    """Where nginx is, installed if that is possible; None if not."""
    if found := _where():
        return found
    if os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(
            ["apt-get", "install", "-y", "-q", "--no-install-recommends", "nginx-light"],
            # A runlevel in which its package starts no service.
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
    return _where()


def _where() -> str | None:
    return shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


@contextmanager
def nginx(command: str, upstream: int, place: Path) -> Iterator[tuple[int, int]]:
    """Its process id and its port."""
    port = free_port()
    config = place / "nginx.conf"
    config.write_text(_CONFIG.format(place=place, upstream=upstream, port=port))
    argv = [command, "-p", str(place), "-c", str(config)]
    with pinned(argv, core=SERVER_CORE, port=port, log=place / "nginx.log", env=os.environ) as pid:
        yield pid, port
