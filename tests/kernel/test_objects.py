"""The object store: one suite for both places it can be, and the wall between tenants."""

from __future__ import annotations

import asyncio
import os
import threading
import unicodedata
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import UUID
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentos.kernel.errors import SetupError
from agentos.kernel.ids import TenantId, uuid7
from agentos.kernel.objects import (
    MAX_NAME_BYTES,
    BadName,
    BlobMissing,
    ObjectStore,
    ObjectStoreUnavailable,
    TenantObjects,
    checked_name,
)

MIB = 1024 * 1024


class FakeS3(ThreadingHTTPServer):
    """As much of S3 as AgentOS uses: single and multipart puts, reads, both kinds of delete."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _S3Handler)
        self.blobs: dict[str, bytes] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.aborted: list[str] = []
        self.refusing = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _S3Handler(BaseHTTPRequestHandler):
    server: FakeS3
    protocol_version = "HTTP/1.1"
    # Otherwise each answer waits 40 ms for the client to say that it has its head.
    disable_nagle_algorithm = True

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except ConnectionError:
            self.close_connection = True

    def _serve(self) -> None:
        url = urlsplit(self.path)
        self.key = unquote(url.path).lstrip("/")
        self.query = {k: v[0] for k, v in parse_qs(url.query, keep_blank_values=True).items()}
        self.body = self.rfile.read(int(self.headers.get("content-length", 0)))
        signed = self.headers.get("authorization", "").startswith("AWS4-HMAC-SHA256 Credential=me/")
        if self.server.refusing or not signed:
            self._answer(403, b"<Error><Code>AccessDenied</Code></Error>")
        else:
            getattr(self, f"_on_{self.command.lower()}")()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _serve  # noqa: N815 - http.server's names

    def _answer(
        self,
        status: int,
        body: bytes = b"",
        length: int | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.send_header("ETag", '"tag"')
        self.send_header("Last-Modified", "Tue, 01 Jan 2030 00:00:00 GMT")
        self.end_headers()
        self.wfile.write(body)

    def _on_put(self) -> None:
        if "uploadId" in self.query:
            self.server.uploads[self.query["uploadId"]][int(self.query["partNumber"])] = self.body
        else:
            self.server.blobs[self.key] = self.body
        self._answer(200)

    def _on_get(self) -> None:
        blob = self.server.blobs.get(self.key)
        if blob is None:
            self._answer(404)
        elif (wanted := self.headers.get("range")) is None:
            self._answer(200, blob)
        else:
            self._answer_part(blob, wanted)

    def _answer_part(self, blob: bytes, wanted: str) -> None:
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        start, end = int(first), min(int(last or len(blob)), len(blob) - 1)
        if start >= len(blob):
            self._answer(416, b"<Error><Code>InvalidRange</Code></Error>")
            return
        span = f"bytes {start}-{end}/{len(blob)}"
        self._answer(206, blob[start : end + 1], headers={"Content-Range": span})

    def _on_head(self) -> None:
        blob = self.server.blobs.get(self.key)
        self._answer(404) if blob is None else self._answer(200, length=len(blob))

    def _on_post(self) -> None:
        if "delete" in self.query:
            keys = [str(e.text) for e in ElementTree.fromstring(self.body).iter() if "Key" in e.tag]
            for key in keys:
                self.server.blobs.pop(f"bucket/{key}", None)
            gone = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
            self._answer(200, f"<DeleteResult>{gone}</DeleteResult>".encode())
        elif "uploads" in self.query:
            self.server.uploads[self.key] = {}
            result = f"<InitiateMultipartUploadResult><UploadId>{self.key}</UploadId></InitiateMultipartUploadResult>"
            self._answer(200, result.encode())
        else:
            parts = self.server.uploads.pop(self.query["uploadId"])
            self.server.blobs[self.key] = b"".join(parts[n] for n in sorted(parts))
            self._answer(
                200,
                b"<CompleteMultipartUploadResult><ETag>tag</ETag></CompleteMultipartUploadResult>",
            )

    def _on_delete(self) -> None:
        if "uploadId" in self.query:
            self.server.uploads.pop(self.query["uploadId"])
            self.server.aborted.append(self.key)
        else:
            self.server.blobs.pop(self.key, None)
        self._answer(204)

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeS3]:
    server = FakeS3()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "me")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(params=["file", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "file":
        return ObjectStore.open((tmp_path / "blobs").as_uri(), tmp_path)
    request.getfixturevalue("s3")
    return ObjectStore.open("s3://bucket/some/prefix", tmp_path)


def new_tenant() -> TenantId:
    return TenantId(uuid7())


async def chunked(data: bytes, size: int = 64 * 1024) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


async def read(objects: TenantObjects, name: str) -> bytes:
    return b"".join([chunk async for chunk in await objects.get(name)])


# What both places do --------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 70_000, 8 * MIB, 20 * MIB + 1])
async def test_what_was_put_is_what_is_got(store: ObjectStore, size: int) -> None:
    objects, data = store.for_tenant(new_tenant()), os.urandom(size)
    await objects.put("a/b.bin", chunked(data))
    assert await objects.exists("a/b.bin")
    assert await read(objects, "a/b.bin") == data


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0, None, b"0123456789"),
        (3, None, b"3456789"),
        (0, 10, b"0123456789"),
        (2, 5, b"234"),
        (8, 12, b"89"),
        (10, 12, b""),
        (50, None, b""),
    ],
)
async def test_a_part_is_read_as_far_as_there_is_one(
    store: ObjectStore, start: int, end: int | None, expected: bytes
) -> None:
    objects = store.for_tenant(new_tenant())
    await objects.put("digits", b"0123456789")
    assert await objects.read("digits", start, end) == expected
    with pytest.raises(BlobMissing):
        await objects.read("nothing", start, end)


async def test_bytes_are_one_chunk(store: ObjectStore) -> None:
    objects = store.for_tenant(new_tenant())
    await objects.put("a", b"first")
    await objects.put("a", b"second")
    assert await read(objects, "a") == b"second"


async def test_names_are_kept_whatever_they_look_like(store: ObjectStore) -> None:
    objects = store.for_tenant(new_tenant())
    for name in ("%2e%2e/%2F", "a b", "ü?x=1&y", "...", "-", "~", "a:b", "…/‰", "#", "x#"):
        await objects.put(name, name.encode())
    assert await read(objects, "%2e%2e/%2F") == b"%2e%2e/%2F"
    assert await read(objects, unicodedata.normalize("NFD", "ü?x=1&y")) == "ü?x=1&y".encode()


async def test_deleting_is_done_once_and_harmless_after(store: ObjectStore) -> None:
    objects = store.for_tenant(new_tenant())
    await objects.put("a", b"x")
    await objects.delete("a")
    await objects.delete("a")
    assert not await objects.exists("a")
    with pytest.raises(BlobMissing):
        await objects.get("a")


async def test_tenants_see_only_their_own(store: ObjectStore) -> None:
    one, other = new_tenant(), new_tenant()
    await store.for_tenant(one).put("a", b"mine")
    for name in ("a", f"{one}/a"):
        assert not await store.for_tenant(other).exists(name)
    with pytest.raises(BadName):
        await store.for_tenant(other).exists(f"../{one}/a")
    await store.for_tenant(other).delete("a")
    assert await read(store.for_tenant(one), "a") == b"mine"


def test_only_a_uuid_becomes_a_prefix(store: ObjectStore) -> None:
    with pytest.raises(AttributeError):
        store.for_tenant("../somewhere")  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [100, 20 * MIB])
async def test_a_source_that_fails_leaves_nothing(store: ObjectStore, size: int) -> None:
    async def failing() -> AsyncIterator[bytes]:
        async for chunk in chunked(bytes(size)):
            yield chunk
        raise KeyError("source")

    objects = store.for_tenant(new_tenant())
    with pytest.raises(KeyError, match="source"):
        await objects.put("a", failing())
    assert not await objects.exists("a")
    await objects.put("b", b"before")
    with pytest.raises(KeyError):
        await objects.put("b", failing())
    assert await read(objects, "b") == b"before"


@pytest.mark.parametrize("size", [100, 20 * MIB])
async def test_a_cancelled_put_stops_reading_and_leaves_nothing(
    store: ObjectStore, size: int
) -> None:
    stopped, waiting = asyncio.Event(), asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        try:
            yield bytes(size)
            waiting.set()
            await asyncio.sleep(60)
        finally:
            stopped.set()

    objects = store.for_tenant(new_tenant())
    putting = asyncio.create_task(objects.put("a", endless()))
    await waiting.wait()
    assert not await objects.exists("a")
    putting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await putting
    assert stopped.is_set()
    assert not await objects.exists("a")


async def test_the_check_leaves_nothing_behind(store: ObjectStore) -> None:
    await store.check()
    root = store._root
    if root is not None:
        assert [p for p in root.rglob("*") if p.is_file()] == []


# A directory ----------------------------------------------------------------------------------


def test_without_a_url_objects_are_in_the_data_directory(tmp_path: Path) -> None:
    store = ObjectStore.open(None, tmp_path)
    assert (tmp_path / "objects").stat().st_mode & 0o777 == 0o700
    assert store.where == (tmp_path / "objects").as_uri()


async def test_a_half_written_file_of_a_crash_goes_with_its_blob(tmp_path: Path) -> None:
    store, tenant = ObjectStore.open(None, tmp_path), new_tenant()
    place = tmp_path / "objects" / str(tenant)
    place.mkdir()
    (place / "a#1").write_bytes(b"half")
    (place / "ab#1").write_bytes(b"another's")
    await store.for_tenant(tenant).delete("a")
    assert [p.name for p in place.iterdir()] == ["ab#1"]


async def test_a_blob_is_on_the_disk_when_put_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, tenant = ObjectStore.open(None, tmp_path), new_tenant()
    synced: list[str] = []
    fsync = os.fsync

    def watching(handle: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{handle}").readlink()))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", watching)
    await store.for_tenant(tenant).put("a/b", b"x")
    root = str(tmp_path / "objects")
    assert synced == [f"{root}/{tenant}/a/b", f"{root}/{tenant}/a", f"{root}/{tenant}", root]


async def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "objects").write_text("in the way")
    with pytest.raises(SetupError, match=str(tmp_path)):
        ObjectStore.open(None, tmp_path)


async def test_a_directory_that_went_away_is_found_by_the_check(tmp_path: Path) -> None:
    store = ObjectStore.open(None, tmp_path)
    (tmp_path / "objects").rmdir()
    (tmp_path / "objects").write_text("in the way")
    with pytest.raises(ObjectStoreUnavailable):
        await store.for_tenant(new_tenant()).put("a", b"x")
    with pytest.raises(SetupError, match="does not work"):
        await store.check()


# S3 -------------------------------------------------------------------------------------------


async def test_s3_keys_are_prefix_tenant_name(s3: FakeS3, tmp_path: Path) -> None:
    tenant = new_tenant()
    await ObjectStore.open("s3://bucket/some/prefix", tmp_path).for_tenant(tenant).put("a", b"x")
    await ObjectStore.open("s3://bucket", tmp_path).for_tenant(tenant).put("b", b"y")
    assert s3.blobs == {f"bucket/some/prefix/{tenant}/a": b"x", f"bucket/{tenant}/b": b"y"}


async def test_s3_forgets_the_parts_of_a_failed_upload(s3: FakeS3, tmp_path: Path) -> None:
    async def failing() -> AsyncIterator[bytes]:
        yield bytes(20 * MIB)
        raise KeyError

    with pytest.raises(KeyError):
        await ObjectStore.open("s3://bucket", tmp_path).for_tenant(new_tenant()).put("a", failing())
    assert s3.uploads == {}
    assert len(s3.aborted) == 1


async def test_s3_that_refuses_is_unavailable_and_the_check_says_why(
    s3: FakeS3, tmp_path: Path
) -> None:
    store = ObjectStore.open("s3://bucket/p", tmp_path)
    s3.refusing = True
    with pytest.raises(ObjectStoreUnavailable):
        await store.for_tenant(new_tenant()).put("a", b"x")
    with pytest.raises(SetupError, match=r"s3://bucket/p does not work: .*403") as failed:
        await store.check()
    assert "secret" not in failed.value.message


# URLs and names -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "",
        "nonsense",
        "/a/path",
        "file://host/path",
        "file:///",
        "file:relative",
        "file:///a/../b",
        "file:///a?b=c",
        "s3://",
        "s3:///prefix",
        "s3://user:secret@bucket/p",
        "s3://bucket/../p",
        "gs://bucket",
        "memory:///",
        "http://[",
    ],
)
def test_a_bad_url_says_what_is_allowed(url: str, tmp_path: Path) -> None:
    with pytest.raises(SetupError) as refused:
        ObjectStore.open(url, tmp_path)
    assert "file:///" in str(refused.value.advice)
    assert "secret" not in refused.value.message


@pytest.mark.parametrize(
    "name",
    [
        *("", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/./b", "a\\b", "..\\a"),
        *("a\0b", "a\nb", "a\x7f", "a\x85", "a\u2028b", "\ud800", "x" * 513, "ä" * 257),
    ],
)
def test_a_name_that_could_mean_anything_else_is_refused(name: str) -> None:
    with pytest.raises(BadName):
        checked_name(name)


def test_the_longest_name_is_allowed() -> None:
    assert checked_name("ä" * (MAX_NAME_BYTES // 2))


@pytest.mark.parametrize("name", ["a#1", "a#1/b", "x" * 241, "C:", "C:/a", "abc:", "C|"])
async def test_a_name_no_directory_can_hold_is_refused_everywhere(
    store: ObjectStore, name: str
) -> None:
    with pytest.raises(BadName):
        await store.for_tenant(new_tenant()).put(name, b"x")


NASTY = st.lists(
    st.sampled_from(
        [
            *("..", ".", "/", "\\", "%2e", "%2f", "%", "#1", "\0", "\n", "~", "…", "．", "․", "／"),
            *(
                "a",
                "é",
                "e\u0301",
                "\u202e",
                "\ud800",
                "C:",
                "file://",
                "\ufeff",
                "|",
                "?",
                ":",
                " ",
            ),
            str(UUID(int=1)),
        ]
    )
    | st.characters(),
    max_size=8,
).map("".join)


@settings(max_examples=300, deadline=None)
@given(name=NASTY)
def test_no_name_leads_out_of_the_tenant(
    tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    base = tmp_path_factory.mktemp("nasty")
    store, tenant = ObjectStore.open(None, base), TenantId(UUID(int=7))
    own = base / "objects" / str(tenant)
    own.mkdir()
    victim = base / "objects" / str(UUID(int=1)) / "a"
    victim.parent.mkdir()
    victim.write_bytes(b"theirs")
    before = set(base.rglob("*"))

    async def attempt() -> None:
        objects = store.for_tenant(tenant)
        try:
            await objects.put(name, b"mine")
        except BadName:
            for action in (objects.get, objects.delete, objects.exists):
                with pytest.raises(BadName):
                    await action(name)
            assert set(base.rglob("*")) == before
            return
        assert await read(objects, name) == b"mine"
        made = [p for p in set(base.rglob("*")) - before if p.is_file()]
        assert len(made) == 1
        assert own in made[0].resolve().parents
        await objects.delete(name)
        assert not made[0].exists()

    asyncio.run(attempt())
    assert victim.read_bytes() == b"theirs"
