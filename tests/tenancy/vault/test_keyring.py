from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from agentos.kernel.errors import SetupError
from agentos.kernel.settings import Settings
from agentos.tenancy.vault.errors import KekMissing, SecretDamaged
from agentos.tenancy.vault.keyring import (
    KEYRINGS,
    EnvironmentKeyring,
    FileKeyring,
    KeyEncryption,
    open_keyring,
)

A, B = "a" * 64, "b" * 64
AAD = b"tenant|1"


def _environment(_: Path) -> KeyEncryption:
    return EnvironmentKeyring(f"new:{A},old:{B}")


def _file(path: Path) -> KeyEncryption:
    return FileKeyring(path / "vault.keys")


@pytest.mark.parametrize("make", [_environment, _file], ids=["environment", "file"])
class TestEveryKeyring:
    """What any keyring promises; a KMS adapter joins the list above."""

    async def test_unwraps_what_it_wrapped(
        self, make: Callable[[Path], KeyEncryption], tmp_path: Path
    ) -> None:
        keyring = make(tmp_path)
        kek_id, wrapped = await keyring.wrap(b"k" * 32, AAD)

        assert kek_id == keyring.current_id
        assert b"k" * 32 not in wrapped
        assert await keyring.unwrap(kek_id, wrapped, AAD) == b"k" * 32

    async def test_refuses_another_place_and_a_flipped_bit(
        self, make: Callable[[Path], KeyEncryption], tmp_path: Path
    ) -> None:
        keyring = make(tmp_path)
        kek_id, wrapped = await keyring.wrap(b"k" * 32, AAD)

        with pytest.raises(SecretDamaged):
            await keyring.unwrap(kek_id, wrapped, b"tenant|2")
        with pytest.raises(SecretDamaged):
            await keyring.unwrap(kek_id, wrapped[:-1] + bytes([wrapped[-1] ^ 1]), AAD)

    async def test_names_a_key_it_does_not_hold(
        self, make: Callable[[Path], KeyEncryption], tmp_path: Path
    ) -> None:
        keyring = make(tmp_path)
        _, wrapped = await keyring.wrap(b"k" * 32, AAD)

        with pytest.raises(KekMissing, match="gone-key") as caught:
            await keyring.unwrap("gone-key", wrapped, AAD)
        assert caught.value.advice is not None
        assert "gone-key" in caught.value.advice
        assert caught.value.details == {"kek_id": "gone-key"}


async def test_environment_wraps_with_the_first_key_and_unwraps_with_all() -> None:
    kek_id, wrapped = await EnvironmentKeyring(f"old:{B}").wrap(b"k" * 32, AAD)
    both = EnvironmentKeyring(f" new:{A} , old:{B} ")

    assert both.current_id == "new"
    assert await both.unwrap(kek_id, wrapped, AAD) == b"k" * 32


@pytest.mark.parametrize(
    "text", ["", A, f":{A}", "k:1234", f"k:{A}x", f"k:{A},k:{B}", f"k:{A},", f"a b:{A}"]
)
def test_a_malformed_setting_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(SetupError) as caught:
        EnvironmentKeyring(text)
    assert A not in caught.value.message
    assert "AGENTOS_KEK" in caught.value.message


def test_a_keyring_does_not_show_its_keys() -> None:
    keyring = EnvironmentKeyring(f"k:{A}")
    assert A not in repr(vars(keyring))
    assert repr(bytes.fromhex(A)) not in repr(vars(keyring))


def test_the_file_is_made_private_on_first_use_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "vault.keys"
    first = FileKeyring(path).current_id

    assert path.stat().st_mode & 0o777 == 0o600
    assert FileKeyring(path).current_id == first


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_file_that_others_can_reach_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "vault.keys"
    keyring = FileKeyring(path)
    assert keyring.current_id
    path.chmod(mode)

    for opened in (keyring, FileKeyring(path)):
        with pytest.raises(SetupError, match="other users") as caught:
            _ = opened.current_id
        assert caught.value.advice == f"Run: chmod 600 {path}"


async def test_an_added_key_is_the_newest_and_known_to_those_who_run_already(
    tmp_path: Path,
) -> None:
    path = tmp_path / "vault.keys"
    running, cli = FileKeyring(path), FileKeyring(path)
    kek_id, wrapped = await running.wrap(b"k" * 32, AAD)

    added = cli.add_key()

    assert running.current_id == cli.current_id == added != kek_id
    assert await running.unwrap(kek_id, wrapped, AAD) == b"k" * 32
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(path.read_text().splitlines()) == 2


async def test_no_key_is_lost_when_many_add_at_once(tmp_path: Path) -> None:
    path = tmp_path / "vault.keys"
    added = await asyncio.gather(*(asyncio.to_thread(FileKeyring(path).add_key) for _ in range(20)))
    kept = {line.partition(":")[0] for line in path.read_text().splitlines()}

    assert set(added) < kept
    assert len(kept) == 21


def test_a_file_that_vanishes_is_not_silently_replaced(tmp_path: Path) -> None:
    path = tmp_path / "vault.keys"
    keyring = FileKeyring(path)
    assert keyring.current_id
    path.unlink()

    with pytest.raises(SetupError, match="gone"):
        _ = keyring.current_id
    assert not path.exists()


@pytest.mark.parametrize("text", ["", "not a key\n", f"k:{A}\nk:{B}\n"])
def test_a_malformed_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "vault.keys"
    path.touch(0o600)
    path.write_text(text)

    with pytest.raises(SetupError, match=r"vault\.keys"):
        _ = FileKeyring(path).current_id


def test_settings_choose_the_keyring(tmp_path: Path) -> None:
    from_environment = open_keyring(Settings(data_dir=tmp_path, kek=f"k1:{A}"))
    from_file = open_keyring(Settings(data_dir=tmp_path, kek=None))

    assert isinstance(from_environment, EnvironmentKeyring)
    assert from_environment.current_id == "k1"
    assert isinstance(from_file, FileKeyring)
    assert (tmp_path / "vault.keys").exists()
    assert set(KEYRINGS) == {"environment", "file"}
