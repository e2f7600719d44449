"""The vault: secrets that go in by the API and come out only where they are used."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

import asyncpg

from agentos.contracts.events import SecretDeleted, SecretStored, VaultKeyRotated
from agentos.kernel.clock import Clock, SystemClock
from agentos.kernel.database import Database, Transaction
from agentos.kernel.errors import Invalid, NotFound
from agentos.kernel.ids import SecretId, uuid7
from agentos.kernel.redaction import register_secret
from agentos.tenancy.pages import PageRequest, RowPage
from agentos.tenancy.principals import Scope
from agentos.tenancy.vault import repository
from agentos.tenancy.vault.envelope import key_place, new_key, seal, secret_place, unseal
from agentos.tenancy.vault.errors import KekMissing, SecretDamaged, SecretTooLarge
from agentos.tenancy.vault.keyring import KeyEncryption
from agentos.tenancy.vault.schemas import (
    MAX_VALUE_BYTES,
    NAME_PATTERN,
    KeyRotation,
    SecretRead,
)
from agentos.tenancy.work import Work

_LIMIT = "vault_secrets"
# At 64 KiB each, a batch of secrets stays under 7 MB of memory.
_BATCH = 100


@dataclass(frozen=True)
class Vault:
    """The use-cases that need keys."""

    keyring: KeyEncryption

    async def store_secret(self, work: Work, name: str, value: str) -> SecretRead:
        """Keeps `value` under `name`, in place of an older one if there is one."""
        work.require(Scope.VAULT_WRITE)
        return await self.store(work, name, value)

    async def store(self, work: Work, name: str, value: str) -> SecretRead:
        """The same for use-cases that have asked for a scope of their own, such as a provider's key."""
        plaintext = _checked(name, value)
        register_secret(value)
        # Also keeps a rotation from removing the key this secret is about to be sealed with.
        await work.hold(_LIMIT)
        before = await repository.secret(work.tx, work.tenant_id, name)
        if before is None:
            await work.quota(_LIMIT, await repository.count(work.tx, work.tenant_id))
        secret_id = SecretId(before["id"] if before else uuid7())
        version = before["version"] + 1 if before else 1
        key_version, key = await self._newest_key(work)
        row = await repository.put(
            work.tx,
            work.tenant_id,
            secret_id,
            name=name,
            version=version,
            key_version=key_version,
            ciphertext=seal(key, plaintext, secret_place(work.tenant_id, secret_id, version)),
            last_four=_last_four(value),
            now=work.now(),
        )
        await work.record(
            "secret.stored",
            SecretStored(secret_id=secret_id, name=name, version=version),
            target=("secret", secret_id),
            before={"name": name, "version": version - 1} if before else None,
            after={"name": name, "version": version},
        )
        return SecretRead(**row)

    async def reveal(self, tx: Transaction, tenant_id: UUID, name: str) -> str:
        """The value of a secret, for use at run time only: no endpoint may return it.

        Asks for no scope: it is the platform that uses a secret, on behalf of whoever may do what
        it is needed for. From here on the value is masked in everything this process logs.
        """
        row = await repository.sealed(tx, tenant_id, name)
        if row is None:
            raise NotFound(f"There is no secret named {name}.", hint="Store it in the vault first.")
        key = await self._unwrap(tenant_id, row["key_version"], row["kek_id"], row["wrapped"])
        value = _open(tenant_id, row, key).decode()
        register_secret(value)
        return value

    async def rotate_tenant_key(self, work: Work) -> KeyRotation:
        """Gives the tenant a new key and seals all its secrets with it."""
        work.require(Scope.VAULT_WRITE)
        await work.hold(_LIMIT)
        old = await self._keys(work)
        version = max(old, default=0) + 1
        key = await self._add_key(work, version)
        reencrypted = await _reseal_all(work, old, version, key)
        # One by one and upwards, as a rewrap locks them, so that neither waits for the other.
        for unused in sorted(old):
            await repository.delete_unused_key(work.tx, work.tenant_id, unused)
        await work.record(
            "vault.key_rotated",
            VaultKeyRotated(version=version),
            target=("vault_key", version),
            before={"version": version - 1},
            after={"version": version, "reencrypted": reencrypted},
        )
        return KeyRotation(version=version, reencrypted=reencrypted)

    async def _newest_key(self, work: Work) -> tuple[int, bytes]:
        rows = await repository.keys(work.tx, work.tenant_id)
        if not rows:
            await self._add_key(work, 1)
            rows = await repository.keys(work.tx, work.tenant_id)
        newest = rows[-1]
        return newest["version"], await self._unwrap(
            work.tenant_id, newest["version"], newest["kek_id"], newest["wrapped"]
        )

    async def _keys(self, work: Work) -> dict[int, bytes]:
        rows = await repository.keys(work.tx, work.tenant_id)
        return {
            row["version"]: await self._unwrap(
                work.tenant_id, row["version"], row["kek_id"], row["wrapped"]
            )
            for row in rows
        }

    async def _add_key(self, work: Work, version: int) -> bytes:
        key = new_key()
        kek_id, wrapped = await self.keyring.wrap(key, key_place(work.tenant_id, version))
        await repository.insert_key(work.tx, work.tenant_id, version, kek_id, wrapped)
        return key

    async def _unwrap(self, tenant_id: UUID, version: int, kek_id: str, wrapped: bytes) -> bytes:
        try:
            return await self.keyring.unwrap(kek_id, wrapped, key_place(tenant_id, version))
        except SecretDamaged:
            raise SecretDamaged(
                f"Version {version} of this tenant's vault key is damaged.",
                hint=f"Check that {kek_id} is still the key it was; "
                "otherwise restore the database from a backup.",
            ) from None


async def list_secrets(work: Work, page: PageRequest) -> RowPage[SecretRead]:
    work.require(Scope.VAULT_READ)
    rows = await repository.secrets(work.tx, work.tenant_id, page.after_id, page.limit + 1)
    return page.of(SecretRead, rows)


async def read_secret_info(work: Work, name: str) -> SecretRead:
    work.require(Scope.VAULT_READ)
    row = await repository.secret(work.tx, work.tenant_id, name)
    if row is None:
        raise NotFound()
    return SecretRead(**row)


async def delete_secret(work: Work, name: str) -> None:
    work.require(Scope.VAULT_WRITE)
    if not await delete(work, name):
        raise NotFound()


async def exists(work: Work, name: str) -> bool:
    """Whether a name is taken, for use-cases that have asked for a scope of their own."""
    return await repository.secret(work.tx, work.tenant_id, name) is not None


async def delete(work: Work, name: str) -> bool:
    """Deletes a secret for a use-case that has asked for a scope of its own; False: there is none."""
    await work.hold(_LIMIT)
    row = await repository.delete(work.tx, work.tenant_id, name)
    if row is None:
        return False
    await work.record(
        "secret.deleted",
        SecretDeleted(secret_id=row["id"], name=name),
        target=("secret", row["id"]),
        before={"name": name, "version": row["version"]},
    )
    return True


async def rewrap_keys(
    platform_db: Database, keyring: KeyEncryption, clock: Clock | None = None
) -> int:
    """Brings the data keys of all tenants under the newest KEK and returns how many it moved.

    Secrets can be stored and used all the while. Each batch commits by itself, so that after an
    interruption a second call goes on where the first one stopped. A key that cannot be unwrapped
    does not hold up the others; it is reported once they are done.
    """
    clock = clock or SystemClock()
    moved, after = 0, (UUID(int=0), 0)
    stuck: list[KekMissing | SecretDamaged] = []
    while True:
        async with platform_db.transaction() as tx:
            rows = await repository.keys_to_rewrap(tx, keyring.current_id, after, _BATCH)
            if not rows:
                break
            came_from: dict[str, int] = {}
            for row in rows:
                place = key_place(row["tenant_id"], row["version"])
                try:
                    key = await keyring.unwrap(row["kek_id"], row["wrapped"], place)
                except (KekMissing, SecretDamaged) as error:
                    stuck.append(error)
                    continue
                kek_id, wrapped = await keyring.wrap(key, place)
                await repository.rewrap(tx, row["tenant_id"], row["version"], kek_id, wrapped)
                came_from[row["kek_id"]] = came_from.get(row["kek_id"], 0) + 1
            if came_from:
                await repository.record_rewrap(
                    tx, clock.now(), {"to": keyring.current_id, "from": came_from}
                )
        moved += sum(came_from.values())
        after = (rows[-1]["tenant_id"], rows[-1]["version"])
    if stuck:
        first = stuck[0]
        raise type(first)(
            f"{moved} keys were rewrapped, {len(stuck)} could not be. The first: {first.message}",
            hint=first.advice,
        )
    return moved


async def _reseal_all(work: Work, old: Mapping[int, bytes], version: int, key: bytes) -> int:
    done = 0
    while rows := await repository.sealed_before(work.tx, work.tenant_id, version, _BATCH):
        resealed = [
            seal(
                key,
                _open(work.tenant_id, row, old[row["key_version"]]),
                secret_place(work.tenant_id, row["id"], row["version"]),
            )
            for row in rows
        ]
        await repository.reseal(
            work.tx, work.tenant_id, version, [row["id"] for row in rows], resealed
        )
        done += len(rows)
    return done


def _open(tenant_id: UUID, row: asyncpg.Record, key: bytes) -> bytes:
    place = secret_place(tenant_id, row["id"], row["version"])
    try:
        return unseal(key, row["ciphertext"], place)
    except SecretDamaged:
        raise SecretDamaged(
            f"The secret {row['name']} is damaged: it was changed, or moved from where it belongs."
        ) from None


def _checked(name: str, value: str) -> bytes:
    if not re.fullmatch(NAME_PATTERN.removesuffix("$"), name, re.ASCII):
        raise Invalid(
            "This is not a name for a secret.",
            hint="Use up to 128 letters, digits, dots, dashes and underscores.",
        )
    try:
        plaintext = value.encode()
    except UnicodeEncodeError:
        raise Invalid("The value is not valid Unicode text.") from None
    if not plaintext:
        raise Invalid("The value is empty.", hint="To remove a secret, delete it.")
    if len(plaintext) > MAX_VALUE_BYTES:
        raise SecretTooLarge()
    return plaintext


def _last_four(value: str) -> str:
    """Enough to recognise a long value by; of a short one it would give too much away."""
    end = value[-4:]
    return end if len(value) >= 12 and end.isprintable() else ""
