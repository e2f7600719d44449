from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos.tenancy.vault.envelope import key_place, new_key, seal, secret_place, unseal
from agentos.tenancy.vault.errors import SecretDamaged

KEY = bytes(range(32))
TENANT, OTHER_TENANT = UUID(int=1), UUID(int=2)
SECRET, OTHER_SECRET = UUID(int=3), UUID(int=4)
PLACE = secret_place(TENANT, SECRET, 1)


@given(st.binary(max_size=2000), st.binary(max_size=100))
def test_what_is_sealed_comes_out_again(plaintext: bytes, aad: bytes) -> None:
    assert unseal(KEY, seal(KEY, plaintext, aad), aad) == plaintext


def test_two_seals_of_one_value_differ() -> None:
    assert seal(KEY, b"value", PLACE) != seal(KEY, b"value", PLACE)


@pytest.mark.parametrize(
    "place",
    [
        secret_place(TENANT, OTHER_SECRET, 1),
        secret_place(OTHER_TENANT, SECRET, 1),
        secret_place(TENANT, SECRET, 2),
        key_place(TENANT, 1),
        b"",
    ],
    ids=["another secret", "another tenant", "another version", "a key", "nowhere"],
)
def test_a_value_decrypts_only_in_its_place(place: bytes) -> None:
    with pytest.raises(SecretDamaged):
        unseal(KEY, seal(KEY, b"value", PLACE), place)


def test_every_single_bit_flip_is_refused() -> None:
    sealed = seal(KEY, b"value", PLACE)
    for bit in range(len(sealed) * 8):
        flipped = bytearray(sealed)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(SecretDamaged):
            unseal(KEY, bytes(flipped), PLACE)


def test_every_truncation_is_refused() -> None:
    sealed = seal(KEY, b"value", PLACE)
    for length in range(len(sealed)):
        with pytest.raises(SecretDamaged):
            unseal(KEY, sealed[:length], PLACE)


def test_another_key_is_refused() -> None:
    with pytest.raises(SecretDamaged):
        unseal(new_key(), seal(KEY, b"value", PLACE), PLACE)
