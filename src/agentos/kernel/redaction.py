"""Keeps secrets out of text: those we know, however they are encoded, and those that look like one.

Known secrets are found through an index of four-character grams rather than one large regular
expression: `re` tries alternatives one by one, so a hundred secrets in all their encodings cost
milliseconds a line and seconds to compile, while a line costs the index the same for one secret
or ten thousand.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import unquote, unquote_to_bytes

MASK = "•••"
SHORTEST = 6  # anything shorter would blank out ordinary words

_CAPACITY = 10_000
_GRAM = 4
_WIDEST_STEP = 6  # wider steps scan faster and index more; past this the memory is not worth it

Span = tuple[int, int]


# --- Known secrets


def _escaped_for_json(text: str) -> set[str]:
    return {json.dumps(text, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)}


def _escaped_for_python(text: str) -> set[str]:
    """As `repr` shows it, inside a string that does or does not force single quotes to escape."""
    parts = [repr('"' + part)[2:-1] for part in text.split("'")]
    return {"'".join(parts), "\\'".join(parts), repr(text.encode("utf-8", "replace"))[2:-1]}


def _in_base64(raw: bytes) -> set[str]:
    """Standing alone, and the part that stays the same wherever it starts inside other bytes."""
    forms = set()
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        forms.add(encode(raw).decode().rstrip("="))
        for shift, shared in ((0, 0), (1, 2), (2, 3)):
            whole_characters = (shift + len(raw)) * 8 // 6
            forms.add(encode(bytes(shift) + raw).decode()[shared:whole_characters])
    return forms


def _forms(value: str) -> set[str]:
    """Every way `value` may be written in a line whose percent-encoding was undone."""
    raw = value.encode("utf-8", "replace")
    written = {value, value.replace(" ", "+")}  # the second is how forms encode a space
    written |= _escaped_for_json(value) | _escaped_for_python(value)
    for form in list(written):
        written |= _escaped_for_json(form)  # what was escaped once is escaped again in a JSON line
    return written | _in_base64(raw) | {raw.hex(), raw.hex().upper()}


class _Known:
    """The registered secrets. Readers take no lock: what they see is replaced, never changed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, None] = {}  # in order of registration
        self._waiting: list[str] = []
        self._index: dict[str, tuple[tuple[int, str], ...]] = {}
        # Every _step-th gram of a line is looked up, so each form is listed under its last _step
        # grams. It only ever shrinks: what was listed for a wider step is found with a narrower.
        self._step = _WIDEST_STEP

    def add(self, value: str) -> None:
        if len(value) < SHORTEST or not value.strip("•"):
            return
        with self._lock:
            if value in self._values:
                return
            if len(self._values) >= _CAPACITY:
                self._drop(next(iter(self._values)))
            self._values[value] = None
            self._waiting.append(value)

    def forget(self, value: str) -> None:
        with self._lock:
            if value in self._values:
                self._drop(value)

    def find(self, text: str) -> list[Span]:
        if self._waiting:
            self._catch_up()
        if not self._index:
            return []
        spans = self._occurrences(text)
        if "%" in text and self._occurrences(unquote(text, errors="surrogateescape")):
            decoded, origin = _percent_decoded(text)
            spans += [(origin[start], origin[end]) for start, end in self._occurrences(decoded)]
        return spans

    def _drop(self, value: str) -> None:
        del self._values[value]
        if value in self._waiting:
            self._waiting.remove(value)
            return
        for form in _forms(value):
            for offset in range(
                max(0, len(form) - _GRAM - _WIDEST_STEP + 1), len(form) - _GRAM + 1
            ):
                gram = form[offset : offset + _GRAM]
                rest = list(self._index.get(gram, ()))
                if (offset, form) in rest:
                    rest.remove((offset, form))  # once: another secret may have the same form
                    self._index[gram] = tuple(rest)
                    if not rest:
                        del self._index[gram]

    def _catch_up(self) -> None:
        with self._lock:
            # A value leaves the queue only once it can be found, so that no reader takes the
            # short way past a secret that another thread is still indexing.
            for value in self._waiting:
                forms = _forms(value)
                self._step = min(self._step, min(map(len, forms)) - _GRAM + 1)
                for form in forms:
                    self._list(form)
            self._waiting.clear()

    def _list(self, form: str) -> None:
        # Under the grams of its end, because beginnings are shared by all keys of a kind.
        for offset in range(len(form) - _GRAM - self._step + 1, len(form) - _GRAM + 1):
            gram = form[offset : offset + _GRAM]
            self._index[gram] = (*self._index.get(gram, ()), (offset, form))

    def _occurrences(self, text: str) -> list[Span]:
        index, step = self._index, self._step
        grams = range(0, len(text) - _GRAM + 1, step)
        spans: list[Span] = []
        for at in [at for at in grams if text[at : at + _GRAM] in index]:
            for offset, form in index.get(text[at : at + _GRAM], ()):
                start = at - offset
                if start >= 0 and text.startswith(form, start):
                    end = start + len(form)
                    while text.startswith("=", end):  # base64 padding, or nothing
                        end += 1
                    spans.append((start, end))
        return spans


_PERCENT = re.compile(r"(?:%[0-9A-Fa-f]{2})+")


def _percent_decoded(text: str) -> tuple[str, list[int]]:
    """The text with its percent-encoding undone, and where each character of it came from."""
    pieces: list[str] = []
    origin: list[int] = []
    position = 0
    for run in _PERCENT.finditer(text):
        pieces.append(text[position : run.start()])
        origin.extend(range(position, run.start()))
        position = run.start()
        decoded = unquote_to_bytes(run[0]).decode("utf-8", "surrogateescape")
        for character in decoded:
            origin.append(position)
            position += 3 * len(character.encode("utf-8", "surrogateescape"))
        pieces.append(decoded)
    pieces.append(text[position:])
    origin.extend(range(position, len(text) + 1))
    return "".join(pieces), origin


def _masked(text: str, spans: list[Span]) -> str:
    spans.sort()
    pieces: list[str] = []
    position = 0
    start, end = spans[0]
    for next_start, next_end in spans[1:]:
        if next_start <= end:
            end = max(end, next_end)
            continue
        pieces += (text[position:start], MASK)
        position, start, end = end, next_start, next_end
    pieces += (text[position:start], MASK, text[end:])
    return "".join(pieces)


# --- What looks like a secret


@dataclass(frozen=True, slots=True)
class _Shape:
    """A pattern, tried only when one of its hints occurs in the lower-cased text."""

    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    replace: str | Callable[[re.Match[str]], str] = MASK


def _mask_credentials(match: re.Match[str]) -> str:
    """Masks `Basic …` only if it holds `user:password`: "basic settings" is prose."""
    try:
        holds_pair = b":" in base64.b64decode(match[2] + "=" * (-len(match[2]) % 4), validate=True)
    except binascii.Error:
        holds_pair = False
    return match[1] + MASK if holds_pair else match[0]


def _mask_dotted(match: re.Match[str]) -> str:
    """Asked here, not in the pattern, which would then read a long text once per beginning."""
    return MASK if "." in match[0] else match[0]


def _qualified(name: str, qualifiers: str) -> str:
    """Matches after `name` if one of the qualifiers stands before it: api_key, not any key."""
    joined = (f"{word}{joint}{name}" for word in qualifiers.split() for joint in ("", "_", "-"))
    return "|".join(f"(?<={whole})" for whole in joined)


# How the name of something secret ends, and what has to follow or go before that. Matched in
# lower-cased text and beginning with a literal, because `re` is ten times faster with those.
_NAMES = {
    "passw": r"(?:or)?d(?:_hash)?",
    "passphrase": "",
    "pwd": r"(?!\W{1,3}/)",  # else it is the working directory
    "secret": "",
    "credential": "s?",
    "authorization": "",
    "key": f"(?:{_qualified('key', 'api access secret private signing encryption account')})",
    # Alone it is a common word, as in "unexpected token: }", so its value has to be long.
    "token": f"(?:{_qualified('token', 'access refresh auth session id bot api bearer secret')}"
    r"""|(?=\\*["']?[ \t]*[:=][ \t]*b?\\*["']?[^\s"'\\]{12}))""",
}

_VALUE = r"""
    (?P<quote> \\* ["'] )? (?P<sign> [ \t]* [:=] [ \t]* )
    (?:
        # Quoted inside a quoted string: up to the same, not more deeply escaped, quote.
        (?P<escaped> b? (?P<level> \\+ ["'] ) ) (?: (?! (?P=level) ) (?: \\++ . | [^"\\] ) )+
      | (?P<double> b? " ) (?: [^"\\] | \\. )+
      | (?P<single> b? ' ) (?: [^'"\\] | \\++ . )+
      | (?P<scheme> (?: basic | bearer | digest | token | bot ) [ ]+ )?
        (?P<bare> [^\s"'\\,;&(){}\[\]<>]+ )
    )
"""

_ASSIGNED = {
    name: re.compile(name + rest + f"(?x:{_VALUE})", re.DOTALL) for name, rest in _NAMES.items()
}

_NOT_SECRET = frozenset({"null", "none", "true", "false", "str"})


def _without_assigned(text: str, lowered: str) -> str:
    """Masks what is assigned to a name like `password`, in code, JSON, YAML, headers and URLs."""
    found = [
        match
        for name, pattern in _ASSIGNED.items()
        if name in lowered
        for match in pattern.finditer(lowered)
        if match["bare"] not in _NOT_SECRET
    ]
    if not found:
        return text
    pieces: list[str] = []
    position = 0
    for match in sorted(found, key=re.Match.start):
        start = max(match.end(lead) for lead in ("sign", "escaped", "double", "single", "scheme"))
        if start < position:
            continue
        # A bare value after a quoted key (a number in JSON) gets the key's quotes, to stay valid.
        quote = (match["quote"] or "") if match["bare"] else ""
        pieces += (text[position:start], quote, MASK, quote)
        position = match.end()
    pieces.append(text[position:])
    return "".join(pieces)


def _shape(
    hints: str, pattern: str, replace: str | Callable[[re.Match[str]], str] = MASK
) -> _Shape:
    return _Shape(tuple(hints.split()), re.compile(pattern), replace)


_KEEP_FIRST = rf"\1{MASK}"

# Before the name of a shape: not in the middle of a word, as in "task-oriented". The letter of
# an escaped line break (in JSON, the text is one line) is not part of the word after it.
_START = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"

_DISCORD_ID = "|".join(
    rf"(?<={start}[MNO][\w-]{{{length}}}\.)"
    for start in (r"\b", r"\\[nrt]")
    for length in range(22, 28)
)

_SHAPES = (
    # Our own opaque tokens; the prefix stays, it says what kind was there.
    _shape("_", r"_(?<=[a-z]{2}_)[0-9a-f]{96}", f"_{MASK}"),
    _shape("eyj", r"eyJ[\w-]{8,}+(?:\.[\w-]*+){0,4}", _mask_dotted),  # JWT and JWE
    _shape(
        "bearer",
        r"((?i:bearer)\s+)(?:(?=[^\s\"']*\d)[\w.~+/=-]{6,}|[\w.~+/=-]{16,})",
        _KEEP_FIRST,
    ),
    _shape("basic", r"((?i:basic)\s+)([A-Za-z0-9+/]{6,}={0,2})", _mask_credentials),
    _shape("sk-", _START + r"sk-[\w-]{16,}"),  # OpenAI, Anthropic, OpenRouter
    _shape("sk_ rk_ whsec_", _START + r"(?:[sr]k_(?:live|test)_|whsec_)\w{10,}"),  # Stripe
    _shape(
        "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat-",
        _START + r"(?:gh[pousr]_|github_pat_|glpat-)[\w-]{20,}",
    ),
    _shape("xox xapp-", _START + r"(?:xox[a-z]|xapp)-[\w-]{8,}"),  # Slack
    _shape(
        "hooks.slack.com/ api/webhooks/", r"((?:/services|/webhooks/\d+)/)[\w/-]{20,}", _KEEP_FIRST
    ),
    _shape("akia asia", _START + r"A(?:KI|SI)A[A-Z0-9]{16}(?![A-Za-z0-9])"),  # AWS
    _shape("aiza ya29. gocspx-", r"AIza[\w-]{35}|ya29\.[\w-]{20,}|GOCSPX-[\w-]{20,}"),  # Google
    # Telegram: the number before the colon is the bot's public id.
    _shape(":", r":(?<=\d{6}:)[\w-]{35}(?![\w-])", f":{MASK}"),
    # Discord: the part before the first dot is the bot's public id.
    _shape(".", rf"\.(?:{_DISCORD_ID})[\w-]{{5,7}}\.[\w-]{{27,40}}(?![\w-])", f".{MASK}"),
    _shape(
        "private",
        r"-----BEGIN [A-Z ]*PRIVATE KEY[A-Z ]*-----(?:(?!-----)[^\"])*(?:-----END [A-Z ]*-----)?",
    ),
    _shape("s", r"S(?<![A-Z0-9]S)[UAONCX][A-Z2-7]{56}(?!\w)"),  # NATS nkey seeds
    _shape("://", r"(://[^\s/:@\"'\\<>]*:)[^\s/\"'\\<>]+(?=@)", _KEEP_FIRST),
    _shape("cookie", r"((?i:cookie)\\*[\"']?[ \t]*[:=][ \t]*\\*[\"']?)[^\r\n\"'\\]+", _KEEP_FIRST),
)


# --- The interface

_known = _Known()


def register_secret(value: str) -> None:
    """From now on `redact` masks `value`, plain or encoded. Short values are ignored."""
    _known.add(value)


def forget_secret(value: str) -> None:
    """Undoes `register_secret`, for a secret that was rotated or deleted."""
    _known.forget(value)


def redact(text: str) -> str:
    """The text without the registered secrets and without anything shaped like a secret."""
    spans = _known.find(text)
    if spans:
        text = _masked(text, spans)
    lowered = _lower(text)
    for shape in _SHAPES:
        for hint in shape.hints:
            if hint in lowered:
                text = shape.pattern.sub(shape.replace, text)
                break
    # A shape may have changed the length, and positions in the one are used in the other.
    return _without_assigned(text, lowered if len(lowered) == len(text) else _lower(text))


def _lower(text: str) -> str:
    """In lower case and of the same length, which `str.lower` does not promise beyond ASCII."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(character.lower()[0] for character in text)
