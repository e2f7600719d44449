"""Documents that people write: YAML or JSON, from a file or from stdin."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from agentos.kernel.errors import Invalid, NotFound


def read_document(file: Path, what: str) -> dict[str, Any]:
    """The document in a file, `-` for stdin. Raises NotFound, Invalid."""
    document = _parsed(_bytes(file), as_json=file.suffix == ".json")
    if not isinstance(document, dict):
        raise Invalid(f"{file} is not {what}.", hint="It has to be one object with named fields.")
    return document


def _bytes(file: Path) -> bytes:
    if str(file) == "-":
        return sys.stdin.buffer.read()
    if not file.is_file():
        raise NotFound(f"There is no file {file}.", hint="Check the path.")
    return file.read_bytes()


def _parsed(text: bytes, *, as_json: bool) -> Any:
    # Imported here: only few commands need YAML.
    from agentos.execution.pulse.chains import errors, reading

    try:
        document = reading.read_json(text) if as_json else reading.read_yaml(text)
        # Both speak of the same things then: no dates, no numbers that are none.
        reading.as_json(document)
    except (errors.UnreadableChain, errors.DuplicateKey) as error:
        raise Invalid(error.message, hint=error.advice) from error
    except errors.ChainTooLarge as error:
        raise Invalid("The document is too large, or nested too deeply.") from error
    return document
