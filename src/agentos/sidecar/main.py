"""The sidecar's entry: `python3 -I /opt/sidecar`."""

from __future__ import annotations

import sys


def main() -> None:
    """Runs one team's sidecar until it is told to end, and exits."""
    # The bus client takes it for websockets, if it is there: 12 MB that no sidecar needs.
    sys.modules.setdefault("aiohttp", None)  # type: ignore[arg-type]
    from agentos.sidecar.process import run

    sys.exit(run())


if __name__ == "__main__":
    main()
