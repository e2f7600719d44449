"""Every way to log, through to the written line."""

from __future__ import annotations

import base64
import io
import json
import logging
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import asyncpg
import pytest
import structlog

from agentos.kernel import logs
from agentos.kernel.logs import bind_context, clear_context, configure_logging, get_logger
from agentos.kernel.redaction import MASK, forget_secret, register_secret
from agentos.kernel.tracing import span

CANARY = "c4nary/Pa+ss w\"ord'\\é"
FORMS = [
    CANARY,
    base64.b64encode(CANARY.encode()).decode(),
    quote(CANARY, safe=""),
    CANARY.encode().hex(),
]
STABLE = [*FORMS[1:], json.dumps(CANARY)[1:-1], repr(CANARY)[1:-1], "c4nary", "ss w", "UGEr"]


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Logging is global: put back everything that configuring it changes."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    hooks = sys.excepthook, threading.excepthook
    register_secret(CANARY)
    yield
    forget_secret(CANARY)
    root.handlers[:], sys.excepthook, threading.excepthook = handlers, *hooks
    root.setLevel(level)
    logging.captureWarnings(False)
    structlog.reset_defaults()
    clear_context()


@pytest.fixture(params=["json", "console"])
def output(request: pytest.FixtureRequest) -> io.StringIO:
    stream = io.StringIO()
    configure_logging("info", request.param, stream)
    return stream


@pytest.fixture
def json_output() -> io.StringIO:
    stream = io.StringIO()
    configure_logging("info", "json", stream)
    return stream


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


class Rude:
    def __repr__(self) -> str:
        raise RuntimeError(CANARY)


@pytest.mark.parametrize("form", FORMS)
def test_no_secret_passes_by_any_way(output: io.StringIO, form: str) -> None:
    root = logging.getLogger()
    # pytest's own handlers do not survive what is logged here.
    root.handlers[:] = [one for one in root.handlers if isinstance(one, logs._Handler)]
    log, plain = get_logger("agentos.test"), logging.getLogger("uvicorn.error")
    log.info("said", value=form, nested={"a": [form, {form: 1}]}, raw=form.encode())
    log.info(form)
    log.info("args %s", form)
    log.bind(key=form).warning("bound")
    plain.warning("args %s and %r", form, [form])
    plain.warning("mapping %(a)s", {"a": form})
    plain.warning("too many", form)
    plain.warning("too few %s %s", form)
    plain.warning("rude %s", Rude())
    log.info("rude", value=Rude())
    bind_context(request_id=form)
    try:
        try:
            raise KeyError(form)
        except KeyError as error:
            error.add_note(form)
            raise ExceptionGroup("several", [ValueError(form)]) from error
    except ExceptionGroup as group:
        log.exception("failed", error=group)
        plain.exception("failed %s", group)
        log.error("failed", exc_info=group)
    warnings.showwarning(UserWarning(form), UserWarning, "file.py", 1)
    sys.excepthook(ValueError, ValueError(form), None)
    thread = threading.Thread(target=int, args=(form,), name="canary")
    thread.start()
    thread.join()

    text = output.getvalue()
    assert text.count("\n") >= 15
    assert MASK in text
    assert [stable for stable in STABLE if stable in text] == []


def test_a_line_is_json_with_the_context(json_output: io.StringIO) -> None:
    bind_context(request_id="r1", tenant_id="t1")
    with span("x") as here:
        get_logger("agentos.one").info("hello", count=3, event_="kept", level="mine", inf=1e999)
        logging.getLogger("asyncpg").error("from %s", "stdlib")
    clear_context()
    get_logger("agentos.one").warning("bare")

    first, second, third = lines(json_output)
    assert first.pop("timestamp").endswith("Z")
    assert first == {
        "level": "info", "logger": "agentos.one", "event": "hello", "request_id": "r1",
        "tenant_id": "t1", "trace_id": here.trace_id, "count": 3, "event_": "kept",
        "level_": "mine", "inf": "inf",
    }  # fmt: skip
    assert (second["event"], second["level"], second["logger"]) == (
        "from stdlib",
        "error",
        "asyncpg",
    )
    assert second["trace_id"] == here.trace_id
    assert third.keys() == {"timestamp", "level", "logger", "event"}


def test_the_console_format_reads_well_and_cannot_be_forged() -> None:
    stream = io.StringIO()
    configure_logging("debug", "console", stream)
    get_logger("agentos.one").debug("hello\n12:00 info fake", path="/x", text="a b\n\x1b[2J")
    assert stream.getvalue()[13:] == (
        ' debug    agentos.one  hello\\n12:00 info fake  path=/x text="a b\\n\\u001b[2J"\n'
    )


def test_levels_filter_both_ways_and_can_change(json_output: io.StringIO) -> None:
    log, plain = get_logger("agentos.one"), logging.getLogger("nats")
    log.debug("no")
    plain.debug("no")
    configure_logging("debug", "json", json_output)
    log.debug("yes")
    plain.debug("yes")
    logging.getLogger("asyncio").info("no")
    assert [line["event"] for line in lines(json_output)] == ["yes", "yes"]


def test_auto_is_json_away_from_a_terminal() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for stream, is_json in ((io.StringIO(), True), (Terminal(), False)):
        configure_logging("info", "auto", stream)
        get_logger("agentos").info("hello")
        assert stream.getvalue().startswith("{") is is_json


def test_database_errors_do_not_quote_rows(output: io.StringIO) -> None:
    error = asyncpg.UniqueViolationError("duplicate key value violates unique constraint")
    error.detail = "Key (email)=(ada@example.org) already exists.\nRow two."
    argument = asyncpg.DataError(
        "invalid input for query argument $1: 'ada (x)' (expected int, got str)"
    )
    log, plain = get_logger("agentos"), logging.getLogger("agentos")
    log.warning("kw", error=error, nested=[error, str(error)], text=str(argument))
    log.warning(f"text {error}")
    plain.warning("args %s %s", error, argument)
    try:
        try:
            raise error
        except asyncpg.UniqueViolationError as cause:
            cause.add_note(str(cause))
            raise RuntimeError(str(cause)) from cause
    except RuntimeError:
        plain.exception("failed")
        log.exception("failed")
    text = output.getvalue()
    assert "ada" not in text
    assert "Row two" not in text
    assert "duplicate key value" in text
    assert "(expected int, got str)" in text


def test_exceptions_show_their_causes_but_no_variables(json_output: io.StringIO) -> None:
    def fail() -> None:
        local = "visible-only-" + "as-a-local"
        try:
            raise KeyError("inner")
        except KeyError as error:
            assert local
            raise ValueError("outer") from error

    try:
        fail()
    except ValueError:
        get_logger("agentos").exception("failed")
    (line,) = lines(json_output)
    assert "visible-only-as-a-local" not in line["exception"]
    assert line["exception"].index("KeyError: 'inner'") < line["exception"].index("direct cause")
    assert line["exception"].endswith("ValueError: outer")
    assert 'raise ValueError("outer") from error' in line["exception"]


def test_circular_causes_and_values_end(json_output: io.StringIO) -> None:
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    loop: list[Any] = []
    loop.append(loop)
    get_logger("agentos").error("failed", exc_info=one)
    get_logger("agentos").error("failed", loop=loop)
    first, second = lines(json_output)
    assert first["exception"].count("ValueError: one") == 1
    assert second["event"] == "unloggable: RecursionError"


def test_a_line_that_masking_would_break_stays_json(json_output: io.StringIO) -> None:
    register_secret("nabcdefg")
    try:
        get_logger("agentos").info("x\nabcdefg")
    finally:
        forget_secret("nabcdefg")
    (line,) = lines(json_output)
    assert "abcdefg" not in line["event"]


def test_a_closed_or_narrow_stream_does_not_break_work() -> None:
    raw = io.BytesIO()
    narrow = io.TextIOWrapper(raw, encoding="ascii")
    configure_logging("info", "json", narrow)
    get_logger("agentos").info("ж \ud800")
    assert json.loads(raw.getvalue())["event"] == "ж \ud800"
    narrow.close()
    get_logger("agentos").info("nobody hears")


def test_handlers_that_libraries_brought_are_removed() -> None:
    stream, other = io.StringIO(), io.StringIO()
    access = logging.getLogger("uvicorn.access")
    access.setLevel(logging.NOTSET)
    access.addHandler(logging.StreamHandler(other))
    access.propagate = False
    configure_logging("info", "json", stream)
    access.info("GET /")
    assert other.getvalue() == ""
    assert [line["event"] for line in lines(stream)] == ["GET /"]


def test_unconfigured_loggers_are_redacted_and_rich_is_never_imported() -> None:
    program = """
import sys
from agentos.kernel.logs import configure_logging, get_logger
log = get_logger("early")
log.info("password=hunter2")
configure_logging("info", "json")
log.info("password=hunter2")
assert "rich" not in sys.modules
import rich
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, timeout=60, capture_output=True, text=True
    )
    assert done.stdout == ""
    assert [json.loads(line)["event"] for line in done.stderr.splitlines()] == [
        f"password={MASK}",
        f"password={MASK}",
    ]
