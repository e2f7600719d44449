"""Logging: structlog and the standard library through one pipeline that ends in redaction.

Whoever logs, the finished line is redacted just before it is written, so no formatter, argument
or exception text can carry a secret past it.
"""

from __future__ import annotations

import json
import logging
import math
import re
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping, MutableMapping
from contextvars import ContextVar
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Literal, TextIO, cast

from agentos.kernel.redaction import MASK, redact
from agentos.kernel.tracing import current_trace_id

# structlog imports rich if it finds it: a tenth of a second for a console that we do not use.
_hides_rich = "rich" not in sys.modules
if _hides_rich:
    sys.modules["rich"] = cast(Any, None)
try:
    import structlog
finally:
    if _hides_rich:
        del sys.modules["rich"]

Format = Literal["auto", "console", "json"]
Fields = MutableMapping[str, Any]

# What these say below a warning is about themselves, or repeats what we log.
_QUIET = ("asyncio", "httpcore", "httpcore2", "httpx", "httpx2", "mcp", "urllib3")
# They bring handlers of their own, whose lines would go round the pipeline.
_WITH_HANDLERS = ("uvicorn", "uvicorn.access", "uvicorn.error")

# Where the text of a database error begins to quote rows or arguments.
_QUOTES_VALUES = re.compile(
    r"(DETAIL:  ).*|(invalid input for query argument [^:]+: )(?:.*(?= \()|.*)", re.DOTALL
)

_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
_CONTROLS[ord("\n")], _CONTROLS[ord("\r")], _CONTROLS[ord("\t")] = "\\n", "\\r", "\\t"
_CONTROLS_IN_BLOCK = {
    code: text for code, text in _CONTROLS.items() if code not in (ord("\n"), ord("\t"))
}

_context: ContextVar[Mapping[str, Any]] = ContextVar("agentos_log_context")


class _Output:
    """Where lines go, and how they are written there."""

    def __init__(self) -> None:
        self.stream: TextIO | None = None  # None: whatever sys.stderr is at the time
        self.json = True
        self._lock = threading.Lock()

    def use(self, stream: TextIO | None, form: Format) -> None:
        terminal = (stream or sys.stderr).isatty()
        self.stream = stream
        self.json = form == "json" or (form == "auto" and not terminal)

    def write(self, fields: Fields) -> None:
        """Finishes, redacts and writes one line; never raises, for logging must not break work."""
        try:
            line = self._finished(fields)
        except Exception as error:  # noqa: BLE001 - a value that cannot be shown is not a reason to fail
            line = json.dumps({"level": "error", "event": f"unloggable: {type(error).__name__}"})
        stream = self.stream or sys.stderr
        try:
            with self._lock:
                try:
                    stream.write(line + "\n")
                except UnicodeEncodeError:
                    stream.write(line.encode("ascii", "backslashreplace").decode() + "\n")
                stream.flush()
        except (OSError, ValueError):  # gone or closed; there is no better place to say so
            return

    def _finished(self, fields: Fields) -> str:
        error = fields.pop("exception", None)
        shown = {key: _shown(value) for key, value in fields.items()}
        if error is not None:
            shown["exception"] = "\n".join(_exception_lines(error, set()))
        return _redacted_json(shown) if self.json else redact(_console(shown))


_output = _Output()


def configure_logging(level: str, format: Format, stream: TextIO | None = None) -> None:
    """Sends all logging of the process, from `level` up, to `stream` (standard error if None).

    "auto" is the console format on a terminal and JSON lines elsewhere. May be called again.
    """
    number = logging.getLevelNamesMapping()[level.upper()]
    _output.use(stream, format)
    _configure_structlog(number)
    root = logging.getLogger()
    for handler in root.handlers[:]:
        root.removeHandler(handler)
    root.addHandler(_Handler())
    root.setLevel(number)
    for name in _WITH_HANDLERS:
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(number, logging.WARNING))
    logging.captureWarnings(True)
    sys.excepthook = _log_uncaught
    threading.excepthook = _log_uncaught_in_thread


def get_logger(name: str) -> structlog.typing.FilteringBoundLogger:
    """A structlog logger. Until logging is configured it writes JSON to standard error."""
    if not structlog.is_configured():
        _configure_structlog(logging.INFO)
    return cast(structlog.typing.FilteringBoundLogger, structlog.get_logger(name))


def bind_context(**values: Any) -> None:
    """Adds fields to every line logged in this task, and in those it starts from now on."""
    _context.set({**_context.get({}), **values})


def clear_context() -> None:
    _context.set({})


# --- The two ways in


def _configure_structlog(level: int) -> None:
    structlog.configure(
        processors=[_from_structlog],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=_Named,
        # A cached logger would keep its level when logging is configured again.
        cache_logger_on_first_use=False,
    )


class _Named:
    """What structlog wraps: it knows the name and takes what the processor hands it."""

    def __init__(self, name: str = "root") -> None:
        self.name = name

    def msg(self, fields: Fields) -> None:
        _output.write(fields)

    debug = info = warning = error = critical = exception = log = fatal = warn = msg


def _from_structlog(
    logger: Any, method: str, event: Fields
) -> tuple[tuple[Fields], dict[str, Any]]:
    fields = _header(datetime.now(UTC), _LEVELS.get(method, method), logger.name)
    error = _error_in(event.pop("exc_info", None))
    fields["event"] = event.pop("event", "")
    fields.update(_without_reserved(event))
    if error is not None:
        fields["exception"] = error
    return (fields,), {}


_LEVELS = {"warn": "warning", "exception": "error", "fatal": "critical", "msg": "info"}


class _Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        moment = datetime.fromtimestamp(record.created, UTC)
        fields = _header(moment, record.levelname.lower(), record.name)
        try:
            fields["event"] = record.getMessage()
        except Exception:  # noqa: BLE001 - arguments that do not fit; their __str__ is foreign code
            fields["event"] = str(record.msg)
        if record.exc_info:
            fields["exception"] = record.exc_info[1]
        if record.stack_info:
            fields["stack"] = record.stack_info
        _output.write(fields)


def _header(moment: datetime, level: str, name: str) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "timestamp": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "level": level,
        "logger": name,
        "event": "",
    }
    fields.update(_without_reserved(_context.get({})))
    trace_id = current_trace_id()
    if trace_id is not None:
        fields["trace_id"] = trace_id
    return fields


def _without_reserved(values: Mapping[str, Any]) -> dict[str, Any]:
    """A caller's fields; those named like ours get an underscore rather than replacing them."""
    return {
        f"{key}_" if key in ("timestamp", "level", "logger", "event", "exception") else key: value
        for key, value in values.items()
    }


def _error_in(exc_info: Any) -> BaseException | None:
    if isinstance(exc_info, BaseException):
        return exc_info
    if isinstance(exc_info, tuple):
        return cast(BaseException | None, exc_info[1])
    return sys.exception() if exc_info else None


def _log_uncaught(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    logging.getLogger("agentos").critical("uncaught exception", exc_info=(kind, error, trace))


def _log_uncaught_in_thread(caught: threading.ExceptHookArgs) -> None:
    if caught.exc_value is not None:
        logging.getLogger("agentos").critical(
            "uncaught exception in thread", exc_info=caught.exc_value
        )


# --- Showing values


def _shown(value: Any) -> Any:
    if isinstance(value, str):
        return _without_values(value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)  # JSON knows no infinity
    if isinstance(value, BaseException):
        return f"{_name(type(value))}: {_message(value)}"
    if isinstance(value, Mapping):
        return {str(key): _shown(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_shown(inner) for inner in value]
    return _without_values(str(value))


def _without_values(text: str) -> str:
    """Cuts PostgreSQL's detail, to the end: rows may hold line breaks, so it has no other."""
    if "DETAIL:  " in text or "query argument" in text:
        return _QUOTES_VALUES.sub(lambda match: (match[1] or match[2]) + MASK, text)
    return text


def _exception_lines(error: BaseException, seen: set[int]) -> Iterator[str]:
    """Like Python's own rendering: causes first, then the stack without variables, then groups."""
    seen.add(id(error))
    cause = error.__cause__
    context = None if error.__suppress_context__ else error.__context__
    earlier = cause or context
    if earlier is not None and id(earlier) not in seen:
        yield from _exception_lines(earlier, seen)
        yield ""
        yield (
            "The above exception was the direct cause of the following exception:"
            if cause
            else "During handling of the above exception, another exception occurred:"
        )
        yield ""
    if error.__traceback__ is not None:
        yield "Traceback (most recent call last):"
        yield "".join(traceback.format_tb(error.__traceback__)).rstrip("\n")
    yield f"{_name(type(error))}: {_message(error)}".removesuffix(": ")
    for note in getattr(error, "__notes__", ()):
        yield _without_values(str(note))
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            for block in _exception_lines(inner, seen):
                yield "\n".join(f"  | {line}" for line in block.split("\n"))


def _name(kind: type[BaseException]) -> str:
    module = kind.__module__
    return kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"


def _message(error: BaseException) -> str:
    try:
        return _without_values(str(error))
    except Exception:  # noqa: BLE001 - foreign __str__ methods fail in every way
        return "(its message cannot be shown)"


# --- Rendering


def _redacted_json(fields: Mapping[str, Any]) -> str:
    line = json.dumps(fields, ensure_ascii=False)
    redacted = redact(line)
    if redacted != line and not _is_json(redacted):
        # A mask that fell across an escape sequence. The line stays one, if a poorer one.
        return json.dumps({"level": fields["level"], "event": redacted}, ensure_ascii=False)
    return redacted


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _console(fields: dict[str, Any]) -> str:
    """`12:03:44.120 warning  agentos.gateway  request refused  status=429`, then any exception."""
    blocks = [fields.pop(name) for name in ("exception", "stack") if name in fields]
    time = str(fields.pop("timestamp"))[11:]
    level, logger, event = fields.pop("level"), fields.pop("logger"), str(fields.pop("event"))
    line = f"{time} {level:<8} {logger}  {event.translate(_CONTROLS)}"
    if fields:
        pairs = (f"{key}={_console_value(value)}" for key, value in fields.items())
        line = f"{line}  {' '.join(pairs)}"
    return "\n".join([line, *(str(block).translate(_CONTROLS_IN_BLOCK) for block in blocks)])


def _console_value(value: Any) -> str:
    if isinstance(value, str) and value and value.isprintable() and " " not in value:
        return value
    return json.dumps(value, ensure_ascii=False).translate(_CONTROLS)
