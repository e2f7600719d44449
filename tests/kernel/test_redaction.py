"""Known secrets in every encoding, secret-looking text, and ordinary text left alone."""

from __future__ import annotations

import base64
import json
import secrets
import time
from collections.abc import Callable
from urllib.parse import quote, quote_plus
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos.kernel import redaction
from agentos.kernel.ids import TenantId
from agentos.kernel.redaction import MASK, forget_secret, redact, register_secret
from agentos.tenancy.opaque_tokens import new_token

CANARY = 'k9/Zr+é "q"\'\\~7Wm?x'

ENCODINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "json": lambda value: json.dumps(value),
    "json, unicode": lambda value: json.dumps(value, ensure_ascii=False),
    "json in json": lambda value: json.dumps(json.dumps({"a": value})),
    "repr": repr,
    "repr in json": lambda value: json.dumps(repr([value])),
    "repr, both quotes": lambda value: repr(f'it\'s "{value}"'),
    "base64": lambda value: base64.b64encode(value.encode()).decode(),
    "base64, after one byte": lambda value: base64.b64encode(b":" + value.encode()).decode(),
    "base64, after two": lambda value: base64.b64encode(b"u:" + value.encode() + b"!").decode(),
    "base64, urlsafe": lambda value: base64.urlsafe_b64encode(value.encode()).decode(),
    "base64 in a url": lambda value: quote(base64.b64encode(value.encode()).decode(), safe=""),
    "percent": lambda value: quote(value, safe=""),
    "percent, path": quote,
    "percent, lower": lambda value: quote(value, safe="").replace("%2F", "%2f"),
    "percent, every byte": lambda value: "".join(f"%{byte:02X}" for byte in value.encode()),
    "form": quote_plus,
    "hex": lambda value: value.encode().hex(),
    "HEX": lambda value: value.encode().hex().upper(),
}


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_known", redaction._Known())


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("value", [CANARY, "hunter2", "correct horse battery staple", "ünïcödé"])
def test_a_known_secret_is_masked_in_every_encoding(encoding: str, value: str) -> None:
    encoded = ENCODINGS[encoding](value)
    assert redact(f"[{encoded}]") == f"[{encoded}]"
    register_secret(value)
    masked = redact(f"[{encoded}] {encoded}")
    assert masked.count(MASK) == 2
    assert masked.startswith("[")
    # Of a base64 text that began or ended elsewhere, single characters of its neighbours remain.
    assert len(masked) < 2 * len(MASK) + 44
    assert encoded not in masked


def test_a_secret_between_others_in_base64_leaves_no_decodable_part() -> None:
    register_secret("s3cretValue")
    for before in range(4):
        for after in range(4):
            inner = b"x" * before + b"s3cretValue" + b"y" * after
            masked = redact(base64.b64encode(inner).decode())
            assert MASK in masked
            # The bytes around it, and characters that hold a few bits of its first or last.
            assert len(masked.replace(MASK, "").rstrip("=")) <= 4 + 1 + 4 + 1


@given(
    value=st.text(
        st.characters(exclude_categories=("Cs", "Cn"), exclude_characters="•"), min_size=6
    ),
    before=st.text(st.characters(codec="ascii", exclude_characters="%")),
    after=st.text(st.characters(codec="ascii")),
)
def test_no_registered_secret_survives(value: str, before: str, after: str) -> None:
    register_secret(value)
    try:
        for name, encode in ENCODINGS.items():
            encoded = encode(value)
            if name in ("json", "json, unicode", "repr"):
                encoded = encoded[1:-1]
            masked = redact(f"{before}{encoded}{after}")
            assert MASK in masked, name
            assert encoded not in masked.replace(before, "", 1), name
            assert value not in masked, name
    finally:
        forget_secret(value)


def test_short_values_are_ignored_and_forgotten_ones_shown_again() -> None:
    register_secret("abcde")
    register_secret("")
    assert redact("abcde fghij") == "abcde fghij"
    register_secret("abcdef")
    assert redact("abcdef") == MASK
    forget_secret("abcdef")
    forget_secret("never known")
    assert redact("abcdef YWJjZGVm") == "abcdef YWJjZGVm"


def test_a_form_shared_by_two_secrets_is_known_until_both_are_forgotten() -> None:
    register_secret("abcdefgh")
    assert redact("abcdefgh") == MASK
    register_secret(b"abcdefgh".hex())
    register_secret("abcdef")  # shorter: the index is scanned in smaller steps from here on
    assert redact("xx6162636465666768xx") == f"xx{MASK}xx"
    forget_secret("abcdefgh")
    assert redact("xx6162636465666768xx") == f"xx{MASK}xx"


def test_overlapping_and_touching_secrets_become_one_mask() -> None:
    register_secret("abcdefgh")
    register_secret("efghijkl")
    assert redact("-abcdefghijkl-") == f"-{MASK}-"
    assert redact("-abcdefghefghijkl-abcdefgh-") == f"-{MASK}-{MASK}-"


def test_the_oldest_is_dropped_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_CAPACITY", 3)
    values = [secrets.token_urlsafe(12) for _ in range(5)]
    for value in values:
        register_secret(value)
        redact("index it")
    assert [redact(value) == MASK for value in values] == [False, False, True, True, True]


JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
SEED = "SUAM" + "LK2ZNL35WSMW37E7UD4VZ7ELPKW7DHC3BWBSD2GCZ7IUQQXZIORRBU"[:54]
PEM = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIIGx\nabcd==\n-----END EC PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (JWT, MASK),
        (f"Authorization: Bearer {JWT}", f"Authorization: Bearer {MASK}"),
        ("bearer abc123def456", f"bearer {MASK}"),
        ("Basic dXNlcjpwYXNzd29yZA==", f"Basic {MASK}"),
        ("sk-proj-abcDEF0123456789abcdef", MASK),
        ("sk-ant-api03-abcDEF0123456789_-abc", MASK),
        ("ghp_" + "a1B2" * 9, MASK),
        ("github_pat_" + "a1B2_" * 9, MASK),
        ("xoxb-123456789012-abcdefghij", MASK),
        ("https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXX", None),
        ("AKIAIOSFODNN7EXAMPLE", MASK),
        ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPx", f"aws_secret_access_key = {MASK}"),
        ("AIza" + "a1B2c" * 7, MASK),
        ("sk_live_51HabcDEF0123456789", MASK),
        ("whsec_abcDEF0123456789", MASK),
        ("/bot123456789:AAF" + "a1B2" * 8 + "/getMe", f"/bot123456789:{MASK}/getMe"),
        ("MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWs", None),
        (PEM, MASK),
        (SEED, MASK),
        ("postgres://app:p%40ss@db:5432/x", f"postgres://app:{MASK}@db:5432/x"),
        ("redis://:hunter2@cache/0", f"redis://:{MASK}@cache/0"),
        ("password=hunter2&user=ada", f"password={MASK}&user=ada"),
        ("DB_PASSWORD: hunter2", f"DB_PASSWORD: {MASK}"),
        ("{'api_key': 'a b\\'c', 'n': 1}", f"{{'api_key': '{MASK}', 'n': 1}}"),
        ('{"clientSecret": "a\\"b", "n": 1}', f'{{"clientSecret": "{MASK}", "n": 1}}'),
        ('{"pin": 1, "password": 123456}', f'{{"pin": 1, "password": "{MASK}"}}'),
        ('"{\\"secret\\": \\"a\\\\\\"b\\", \\"n\\": 1}"', f'"{{\\"secret\\": \\"{MASK}\\", \\"n\\": 1}}"'),
        ("X-Api-Key: abc", f"X-Api-Key: {MASK}"),
        ("accessToken=abc", f"accessToken={MASK}"),
        ("Set-Cookie: session=abc; Path=/", f"Set-Cookie: {MASK}"),
    ],
)  # fmt: skip
def test_what_looks_like_a_secret_is_masked(text: str, expected: str | None) -> None:
    masked = redact(text)
    assert MASK in masked
    if expected is not None:
        assert masked == expected
    assert redact(masked) == masked
    read = json.loads(redact(json.dumps({"event": f"first\n{text}\nlast", "after": "kept"})))
    assert read["after"] == "kept"
    if expected is not None:
        assert read["event"] == f"first\n{expected}\nlast"
    assert MASK in read["event"]


@pytest.mark.parametrize("prefix", ["sk", "inv", "tkt"])
def test_our_own_tokens_keep_only_their_kind(prefix: str) -> None:
    token = new_token(prefix, TenantId(uuid4()))
    assert redact(f"key {token.text}.") == f"key {prefix}_{MASK}."


@pytest.mark.parametrize(
    "text",
    [
        "",
        "session 0197a3f0-5c1e-7d3a-9b1f-2f6f3c1d8e7a completed in 12.4 ms",
        "commit 3f786850e387550fdab836ed7e6dc881de23001b on main",
        "sha256:" + "ab12" * 16,
        "The task-oriented guide explains basic authentication and bearer tokens.",
        "input_tokens=1200 output_tokens: 88, max_tokens 4096",
        "unexpected token: '}' at line 3; the secrets: 4, passwords: many",
        "GET http://127.0.0.1:8000/v1/sessions?limit=20&next=abc 200",
        "see https://docs.example.org:8443/@scope/name for more",
        "mail ada@example.org at 2025-06-01T12:00:00.123456Z",
        "agentos.kernel.some_quite_long_function_name_here failed",
        "eyJhIjoxfQ is base64 but no JWT",
        "pwd=/work/main key=value monkey: banana",
        '{"password": null, "secret": false}',
        "100% of 20%25 and %zz",
        "İstanbul İzmir token İ",
        "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    ],
)
def test_ordinary_text_is_untouched(text: str) -> None:
    for _ in range(200):
        register_secret(secrets.token_urlsafe(24))
    assert redact(text) == text


@pytest.mark.parametrize(
    "part",
    ["eyJ", "eyJhbGciOiJ.", "password='", 'secret=\\"', "://a:", "bearer ", ".", ":", "%41", "\\"],
)
def test_hostile_text_takes_no_more_than_linear_time(part: str) -> None:
    register_secret("hunter2")
    text = "password secret token key bearer basic private cookie " + part * (200_000 // len(part))
    started = time.process_time()
    redact(text)
    assert time.process_time() - started < 3  # a quadratic pattern takes minutes
