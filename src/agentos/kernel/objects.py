"""Blobs, in a directory or in S3, and the one wall between the blobs of two tenants.

A blob written to a name is complete or absent, never half there; once `put` returns it survives a
power cut. Nothing here knows what the bytes mean or who may see them within a tenant.
"""

from __future__ import annotations

import asyncio
import glob
import os
import re
import unicodedata
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit
from uuid import UUID

import obstore
from obstore.exceptions import BaseError
from obstore.store import LocalStore, S3Store

from agentos.kernel.errors import Invalid, NotFound, SetupError, Unavailable
from agentos.kernel.ids import TenantId, uuid7

if TYPE_CHECKING:
    from obstore import OffsetRange
    from obstore.store import ClientConfig, RetryConfig

MAX_NAME_BYTES = 512

_ALLOWED = (
    "Use file:///absolute/path or s3://bucket/prefix, or leave it unset for the data directory."
)
_PART = 8 * 1024 * 1024  # S3 takes 10,000 parts of at least 5 MiB; this allows objects of 80 GB
_PARTS_AT_ONCE = 2  # an upload holds at most this many parts in memory, and the one being filled
_READ = 256 * 1024
_CHECK_SECONDS = 20
# How obstore names a file it is still writing; it refuses to keep a blob under such a name.
_STAGED = re.compile(r".*#\d+", re.DOTALL)
_DRIVE = re.compile(r".*[A-Za-z][:|]", re.DOTALL)  # obstore takes it for a directory, everywhere
_MAX_SEGMENT_BYTES = 240  # what file systems allow, less the suffix of a file still being written
_UNPRINTABLE = frozenset({"Cc", "Cs", "Zl", "Zp"})
# Owns no rows, so nothing of a tenant can be there.
_NOBODY = TenantId(UUID(int=0))


class BadName(Invalid):
    """This cannot be the name of an object."""

    code = "bad_object_name"
    hint = "Use a relative path like reports/2030/may.pdf, at most 512 bytes long."


class BlobMissing(NotFound):
    """The object store has no such blob."""

    code = "blob_missing"


class ObjectStoreUnavailable(Unavailable):
    """The object store is not answering right now."""

    code = "object_store_unavailable"


def checked_name(text: str) -> str:
    """`text` in Unicode's NFC, or BadName if it could mean anything but a path below its root."""
    name = unicodedata.normalize("NFC", text)
    if any(unicodedata.category(c) in _UNPRINTABLE for c in name):
        raise BadName("The name of an object has no control characters.")
    if len(name.encode()) > MAX_NAME_BYTES:
        raise BadName(f"The name of an object has at most {MAX_NAME_BYTES} bytes.")
    if "\\" in name or any(segment in ("", ".", "..") for segment in name.split("/")):
        raise BadName("The name of an object has no empty, `.` or `..` segment and no backslash.")
    return name


class ObjectStore:
    """Where blobs are kept. `for_tenant` is the only way to them."""

    def __init__(self, store: LocalStore | S3Store, where: str, root: Path | None):
        self._store = store
        self._root = root
        self.where = where

    @classmethod
    def open(cls, url: str | None, data_dir: Path) -> ObjectStore:
        """The store at `url`, or in the data directory without one. S3 reads the AWS_* environment."""
        if url is None:
            return cls._directory(data_dir / "objects")
        try:
            parts = urlsplit(url)
        except ValueError:
            raise SetupError("OBJECT_STORE_URL is not a URL.", hint=_ALLOWED) from None
        if parts.query or parts.fragment or "@" in parts.netloc:
            raise SetupError(
                "OBJECT_STORE_URL takes no credentials, query or fragment.",
                hint=f"{_ALLOWED} Credentials for S3 go in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
            )
        path = unquote(parts.path)
        if parts.scheme == "file" and parts.netloc in ("", "localhost") and path.strip("/"):
            return cls._directory(Path(path))
        if parts.scheme == "s3" and parts.netloc:
            return cls._bucket(parts.netloc, path.strip("/"))
        raise SetupError("OBJECT_STORE_URL names no place AgentOS can use.", hint=_ALLOWED)

    @classmethod
    def _directory(cls, root: Path) -> ObjectStore:
        if not root.is_absolute() or ".." in root.parts:
            raise SetupError("The directory for objects is not an absolute path.", hint=_ALLOWED)
        try:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            store = LocalStore(root)
        except (OSError, BaseError) as error:
            raise SetupError(f"Objects cannot be kept in {root}: {_reason(error)}") from error
        return cls(store, root.as_uri(), root)

    @classmethod
    def _bucket(cls, bucket: str, prefix: str) -> ObjectStore:
        where = f"s3://{bucket}/{prefix}"
        try:
            if prefix:
                checked_name(prefix)
            store = S3Store(
                bucket, prefix=prefix or None, client_options=_client(), retry_config=_RETRIES
            )
        except (BadName, BaseError, ValueError) as error:
            raise SetupError(f"{where} cannot be used: {_reason(error)}", hint=_ALLOWED) from error
        return cls(store, where, None)

    def for_tenant(self, tenant_id: TenantId) -> TenantObjects:
        return TenantObjects(self._store, self._root, tenant_id)

    async def check(self) -> None:
        """Writes, reads and removes a small blob; SetupError says what does not work."""
        probes, name, sent = self.for_tenant(_NOBODY), f"probe-{uuid7()}", os.urandom(64)
        try:
            async with asyncio.timeout(_CHECK_SECONDS):
                await probes.put(name, sent)
                got = b"".join([chunk async for chunk in await probes.get(name)])
                await probes.delete(name)
        except (Unavailable, NotFound, TimeoutError) as error:
            cause = _reason(error.__cause__ or error)
            raise SetupError(f"The object store {self.where} does not work: {cause}") from error
        if got != sent:
            raise SetupError(f"The object store {self.where} gave back other bytes than it got.")


class TenantObjects:
    """The blobs of one tenant. No name, whatever it holds, leads to those of another."""

    def __init__(self, store: LocalStore | S3Store, root: Path | None, tenant_id: TenantId):
        self._store = store
        self._root = root
        # Rebuilt from its number, so that nothing but a UUID can ever become the prefix.
        self._prefix = f"{UUID(int=tenant_id.int)}/"

    async def put(self, name: str, chunks: AsyncIterator[bytes] | bytes) -> None:
        """Writes a blob. If `chunks` fails or the caller is cancelled, nothing becomes visible."""
        path = self._path(name)
        # Not put_async: it goes on pulling an asynchronous iterator after it was cancelled.
        writer = obstore.open_writer_async(
            self._store, path, buffer_size=_PART, max_concurrency=_PARTS_AT_ONCE
        )
        with _reporting_loss():
            async with writer:
                async for chunk in _one(chunks) if isinstance(chunks, bytes) else chunks:
                    if chunk:
                        await writer.write(chunk)
            if self._root is not None:
                await asyncio.to_thread(_make_durable, self._root, path)

    async def get(self, name: str) -> AsyncIterator[bytes]:
        """The bytes of a blob. It is open when this returns: BlobMissing comes before any byte."""
        with _reporting_loss():
            result = await obstore.get_async(self._store, self._path(name))
        return _reading(result.stream(min_chunk_size=_READ))

    async def read(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        """The bytes of a blob from `start` up to `end`; fewer if it is shorter than that.

        A directory is read in one go, while `get` reads it in pieces of 8 KiB.
        """
        path = self._path(name)
        wanted: tuple[int, int] | OffsetRange = {"offset": start} if end is None else (start, end)
        with _reporting_loss():
            try:
                result = await obstore.get_async(self._store, path, options={"range": wanted})
                return bytes(await result.bytes_async())
            except BaseError:
                # No kind of its own tells that a blob ends before the range begins.
                if (await obstore.head_async(self._store, path))["size"] <= start:
                    return b""
                raise

    async def delete(self, name: str) -> None:
        """Removes a blob, and what a crash left of writing it; harmless if there is none."""
        path = self._path(name)
        with _reporting_loss():
            with suppress(FileNotFoundError):
                await obstore.delete_async(self._store, path)
            if self._root is not None:
                await asyncio.to_thread(_remove_staged, self._root / path)

    async def exists(self, name: str) -> bool:
        try:
            with _reporting_loss():
                await obstore.head_async(self._store, self._path(name))
        except BlobMissing:
            return False
        return True

    def _path(self, name: str) -> str:
        name = checked_name(name)
        for segment in name.split("/"):
            if (
                len(segment.encode()) > _MAX_SEGMENT_BYTES
                or _STAGED.fullmatch(segment)
                or _DRIVE.fullmatch(segment)
            ):
                raise BadName("A directory cannot hold a file of this name.")
        return self._prefix + name


_RETRIES: RetryConfig = {"max_retries": 4, "retry_timeout": timedelta(seconds=30)}


def _client() -> ClientConfig:
    """S3 over plain HTTP only if the endpoint says so; a slow download may take its time."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    endpoint = endpoint or os.environ.get("AWS_ENDPOINT") or ""
    return {
        "allow_http": endpoint.lower().startswith("http://"),
        "connect_timeout": timedelta(seconds=5),
        # The whole of a download, which goes as slowly as the client reads. A server that has
        # stopped answering is found by the read time-out.
        "timeout": timedelta(days=1),
        "read_timeout": timedelta(seconds=30),
    }


@contextmanager
def _reporting_loss() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise BlobMissing() from error
    except (BaseError, OSError) as error:
        raise ObjectStoreUnavailable() from error


async def _one(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def _reading(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    with _reporting_loss():
        async for chunk in stream:
            yield bytes(chunk)


def _reason(error: BaseException) -> str:
    """The first line: the rest of obstore's messages is a dump of Rust structures."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _make_durable(root: Path, path: str) -> None:
    """Flushes a new file and the directories that name it. obstore renames without fsync."""
    place = root / path
    while True:
        handle = os.open(place, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        if place == root:
            return
        place = place.parent


def _remove_staged(place: Path) -> None:
    for left in place.parent.glob(f"{glob.escape(place.name)}#*"):
        if _STAGED.fullmatch(left.name):
            left.unlink(missing_ok=True)
