"""Checks what a model gave as arguments, and says in its words what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jsonschema_rs
import msgspec

from agentos.kernel.errors import Invalid

_MOST_CHARACTERS = 6_000_000
_MOST_TOLD = 5
_MOST_ATTEMPTS = 10_000


class BadSchema(Invalid):
    """This is not a JSON Schema of an object."""

    code = "bad_schema"


class BadArguments(Invalid):
    """The arguments do not fit the tool."""

    code = "bad_arguments"


class Arguments:
    """The arguments that one tool takes."""

    def __init__(self, schema: Mapping[str, Any]):
        """Raises BadSchema. References to other documents are not followed: it is foreign data."""
        if schema.get("type") != "object":
            raise BadSchema()
        try:
            self._validator = _validator(schema)
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            raise BadSchema(f"This is not a valid JSON Schema: {str(error)[:200]}") from None

    def parse(self, given: Mapping[str, Any] | str) -> dict[str, Any]:
        """The arguments, if they fit. Raises BadArguments."""
        arguments = _decoded(given) if isinstance(given, str) else dict(given)
        _check_text(arguments)
        problems = []
        for error in self._validator.iter_errors(arguments):
            problems.append(_told(error))
            if len(problems) == _MOST_TOLD:
                break
        if problems:
            raise BadArguments("The arguments do not fit: " + "; ".join(problems) + ".")
        return arguments


def _validator(schema: Mapping[str, Any]) -> jsonschema_rs.Validator:
    """Takes time in proportion to what it validates: the patterns may be foreign, too."""
    given = dict(schema)
    try:
        return jsonschema_rs.validator_for(
            given,
            offline=True,
            validate_formats=False,
            pattern_options=jsonschema_rs.RegexOptions(),
        )
    except ValueError:
        # Patterns that look ahead need an engine that tries; it gives up after so many attempts.
        return jsonschema_rs.validator_for(
            given,
            offline=True,
            validate_formats=False,
            pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=_MOST_ATTEMPTS),
        )


def _decoded(text: str) -> dict[str, Any]:
    if len(text) > _MOST_CHARACTERS:
        raise BadArguments("The arguments are too long.")
    try:
        # Several vendors send nothing at all for a call without arguments.
        arguments = msgspec.json.decode(text) if text.strip() else {}
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise BadArguments("The arguments are not valid JSON.") from None
    if not isinstance(arguments, dict):
        raise BadArguments("The arguments must be a JSON object.")
    return arguments


def _check_text(arguments: Mapping[str, Any]) -> None:
    """Raises BadArguments for text that no file, argument or request can hold."""
    try:
        msgspec.json.encode(arguments)
    except UnicodeEncodeError:
        raise BadArguments("The arguments contain half of a surrogate pair.") from None
    except (TypeError, ValueError, RecursionError):
        raise BadArguments("The arguments are not valid JSON.") from None


def _told(error: jsonschema_rs.ValidationError) -> str:
    where = ".".join(map(str, error.instance_path))
    # The value is the model's own, and may be a whole file.
    text = error.message if len(error.message) <= 200 else f"{error.message[:200]}…"
    return f"{where}: {text}" if where else text
