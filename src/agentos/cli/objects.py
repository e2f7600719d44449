from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from agentos.cli.client import Client, Url
from agentos.cli.output import AsJson, Column, print_json, show_done, show_list, size
from agentos.kernel.errors import Invalid, NotFound

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)

Key = Annotated[str, typer.Argument(help="Path of the object, like reports/2030/may.pdf.")]


@app.command("list")
def list_objects(
    prefix: Annotated[str, typer.Argument(help="Only keys that begin with this.")] = "",
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 200,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """The objects of this tenant in the order of their keys."""
    columns = (
        Column("Key", "key"),
        Column("Size", lambda row: size(row["size"])),
        Column("Type", "content_type"),
        Column("Uploaded", "created_at"),
    )
    show_list(
        Client.open(url).items("/api/objects", limit=limit, prefix=prefix or None),
        columns,
        as_json=as_json,
        empty="No objects here. Upload one with `agentos objects put FILE`.",
    )


@app.command()
def put(
    file: Annotated[str, typer.Argument(help="File to upload; `-` reads stdin.")],
    key: Annotated[str | None, typer.Argument(help="Where to; default: the file's name.")] = None,
    content_type: Annotated[
        str | None, typer.Option(help="Media type; default: by the file's name.")
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Upload a file, in place of what was under the key."""
    if key is None:
        if file == "-":
            raise Invalid("Where should it go?", hint="Give a key: `agentos objects put - KEY`.")
        key = Path(file).name
    client = Client.open(url)
    if file == "-":
        source, length = sys.stdin.buffer, None
        stored = client.upload(
            _path(key), lambda: source, length=length, content_type=content_type or _guess(key)
        )
    else:
        place = Path(file)
        if not place.is_file():
            raise NotFound(f"There is no file {place}.", hint="Check the path.")
        stored = client.upload(
            _path(key),
            lambda: place.open("rb"),
            length=place.stat().st_size,
            content_type=content_type or _guess(place.name),
        )
    show_done(f"Stored {stored['key']} ({size(stored['size'])}).", stored, as_json=as_json)


@app.command()
def get(
    key: Key,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", help="File to write; default: the key's last part; `-`: stdout."
        ),
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Download an object."""
    client = Client.open(url)
    if output == "-":
        client.save(_path(key), sys.stdout.buffer)
        return
    place = Path(output or key.rpartition("/")[2])
    # Complete or not there at all: a download that broke off must not pass for the file.
    part = place.with_name(f"{place.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            client.save(_path(key), file)
        part.replace(place)
    finally:
        part.unlink(missing_ok=True)
    written = place.stat().st_size
    if as_json:
        print_json({"key": key, "file": str(place), "bytes": written})
    else:
        show_done(f"Wrote {place} ({size(written)}).", {}, as_json=False)


@app.command()
def delete(key: Key, url: Url = None, as_json: AsJson = False) -> None:
    """Delete an object."""
    Client.open(url).delete(_path(key))
    show_done(f"Deleted {key}.", {"deleted": key}, as_json=as_json)


def _path(key: str) -> str:
    return f"/api/objects/{quote(key, safe='/')}"


def _guess(name: str) -> str:
    import mimetypes

    return mimetypes.guess_type(name)[0] or "application/octet-stream"
