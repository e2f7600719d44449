"""Migrations are written in SQL: a revision `0001_x.py` runs `0001_x.up.sql` or `.down.sql`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from alembic import op


def run_script(revision_file: str, direction: Literal["up", "down"]) -> None:
    script = Path(revision_file).with_suffix(f".{direction}.sql").read_text()
    bind = op.get_bind()
    # The driver opens its transaction with the first statement; the script must run inside it.
    bind.exec_driver_sql("select 1")
    # Through the driver itself, because a script is many statements and a prepared one is one.
    bind.connection.dbapi_connection.run_async(lambda driver: driver.execute(script))  # type: ignore[union-attr]
