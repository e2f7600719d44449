from __future__ import annotations

import json

import pytest

from agentos.cli.output import (
    Column,
    cell,
    counted,
    printable,
    show_done,
    show_list,
    show_one,
    size,
)

COLUMNS = (Column("Name", "name"), Column("Twice", lambda row: row["n"] * 2))


def test_a_list_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"name": "a", "n": 1}, {"name": "longer", "n": 20}]
    show_list(rows, COLUMNS, as_json=False, empty="-")
    assert capsys.readouterr().out == "Name    Twice\na       2\nlonger  40\n"


def test_an_empty_list_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    show_list([], COLUMNS, as_json=False, empty="Make one with `x`.")
    assert capsys.readouterr().out == "Make one with `x`.\n"
    show_list([], COLUMNS, as_json=True, empty="Make one with `x`.")
    assert capsys.readouterr().out == "[]\n"


def test_json_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    show_one({"a": 1, "b": "é"}, as_json=True)
    assert json.loads(capsys.readouterr().out) == {"a": 1, "b": "é"}
    show_done("Done.", {"done": True}, as_json=True)
    assert json.loads(capsys.readouterr().out) == {"done": True}


def test_one_thing(capsys: pytest.CaptureFixture[str]) -> None:
    show_one({"user_id": "x", "on": True, "n": None, "l": ["a", "b"]}, as_json=False)
    assert capsys.readouterr().out == "user id  x\non       yes\nn        -\nl        a, b\n"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("two\nlines", "two\\nlines"),
        ("[bold]not markup[/bold]", "[bold]not markup[/bold]"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ({"a": [1]}, '{"a": [1]}'),
        ([], "-"),
        (0, "0"),
        ("2030-05-01T nonsense here", "2030-05-01T nonsense here"),
    ],
)
def test_what_others_wrote_cannot_steer_the_terminal(value: object, shown: str) -> None:
    assert cell(value) == shown


def test_lines_are_kept_where_they_are_ours() -> None:
    assert printable("a\nb\x00", lines=True) == "a\nb\\x00"


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (2_500_000, "2.5 MB"),
        (3 * 10**15, "3000.0 TB"),
    ],
)
def test_sizes(count: int, shown: str) -> None:
    assert size(count) == shown


def test_counted() -> None:
    assert [counted(n, "key") for n in (0, 1, 2)] == ["0 keys", "1 key", "2 keys"]


def test_a_table_on_a_terminal_keeps_ids_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "dumb")
    show_list([{"name": "0123456789" * 6, "n": 1}], COLUMNS, as_json=False, empty="")
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "…" not in out
    assert "".join(out.split()).count("0123456789") >= 3
