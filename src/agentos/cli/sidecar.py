from __future__ import annotations

import typer

app = typer.Typer(rich_markup_mode=None)


@app.command()
def sidecar() -> None:
    """Run the process beside a team's agent CLI. Workers start it; nobody else needs to."""
    from agentos.sidecar.main import main

    main()
