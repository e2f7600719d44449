from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentos.cli import profile
from agentos.cli.profile import Profile, SignIn
from agentos.kernel.errors import SetupError

A, B = "http://a.example", "http://b.example"


def test_nothing_remembered_yet() -> None:
    assert profile.load() == Profile()


def test_remembered_and_forgotten() -> None:
    profile.remember(A, SignIn(api_key="one"))
    profile.remember(B, SignIn(access_token="t", refresh_token="r", tenant="demo"))
    assert profile.load().current == B
    assert profile.load().sign_ins[A].api_key == "one"
    profile.forget(B)
    assert profile.load() == Profile(A, {A: SignIn(api_key="one")})
    profile.forget(A)
    assert profile.load() == Profile()


def test_only_the_owner_can_read_it() -> None:
    old = os.umask(0)
    try:
        profile.remember(A, SignIn(api_key="one"))
    finally:
        os.umask(old)
    assert profile.path().stat().st_mode & 0o777 == 0o600
    assert profile.path().parent.stat().st_mode & 0o777 == 0o700
    profile.path().chmod(0o644)
    with pytest.raises(SetupError, match="other users") as caught:
        profile.load()
    assert "chmod 600" in (caught.value.advice or "")


def test_a_failed_write_leaves_the_old_file(monkeypatch: pytest.MonkeyPatch) -> None:
    profile.remember(A, SignIn(api_key="one"))

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        profile.remember(B, SignIn(api_key="two"))
    assert list(profile.load().sign_ins) == [A]
    assert sorted(p.name for p in profile.path().parent.iterdir()) == [
        "credentials.json",
        "credentials.lock",
    ]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"sign_ins": {"x": {"unknown": 1}}}'])
def test_a_damaged_file_says_what_to_do(text: str) -> None:
    profile.remember(A, SignIn(api_key="one"))
    profile.path().write_text(text)
    with pytest.raises(SetupError, match="cannot be understood") as caught:
        profile.load()
    assert "rm " in (caught.value.advice or "")


def test_repr_shows_no_secret() -> None:
    assert "hush" not in repr(SignIn(api_key="hush", access_token="hush", refresh_token="hush"))


def test_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert profile.path() == tmp_path / ".config" / "agentos" / "credentials.json"
