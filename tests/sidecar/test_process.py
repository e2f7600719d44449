"""A whole sidecar: a process of its own, its sockets, and being killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

import msgspec
import pytest

from agentos.contracts.crew import Beat, Shutdown, SidecarCredentials
from agentos.kernel.engines.nats import EmbeddedNats
from agentos.kernel.ids import uuid7
from agentos.sidecar.places import BadFile, Places
from tests.sidecar.fakes import Keeper, credentials, running_nats, spec_of, until

ROOT = Path(__file__).parents[2]
START = "from agentos.sidecar.main import main; main()"


class Place:
    """What a keeper prepares for a sidecar, and the sidecars that ran there."""

    def __init__(self, root: Path, keeper: Keeper, tenant: UUID, team: UUID) -> None:
        self.keeper = keeper
        self.run, self.workspace = root / "run", root / "workspace"
        self.run.mkdir()
        self.workspace.mkdir()
        self.spec = spec_of(tenant, team)
        (self.run / "spec.json").write_bytes(msgspec.json.encode(self.spec))
        rights = credentials(tenant, team)
        written = SidecarCredentials(
            rights.jwt, rights.seed, rights.inbox_prefix, rights.public_key
        )
        (self.run / "credentials.json").write_bytes(msgspec.json.encode(written))

    @property
    def questions(self) -> list[str]:
        return (self.workspace / "questions.log").read_text().splitlines()

    def _started(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-c", START],
            cwd=ROOT,
            env={
                "PATH": os.environ["PATH"],
                "AGENTOS_RUN_DIR": str(self.run),
                "AGENTOS_WORKSPACE": str(self.workspace),
                "AGENTOS_SIDECAR_PROVIDER": "tests.sidecar.fakes:Scripted",
            },
            stderr=subprocess.PIPE,
        )

    @asynccontextmanager
    async def sidecar(self) -> AsyncIterator[subprocess.Popen[bytes]]:
        self.keeper.heard.clear()
        process = self._started()
        try:
            await self.keeper.until(lambda: self.keeper.all(Beat) or None, 60)
            yield process
        finally:
            process.kill()
            self.log = process.communicate()[1].decode()


async def ended(process: subprocess.Popen[bytes]) -> int:
    await until(lambda: process.poll() is not None, 30)
    return process.returncode


@asynccontextmanager
async def relay(path: Path, port: int) -> AsyncIterator[None]:
    """A unix socket that leads to a port, as the keeper opens one."""

    async def carry(near: asyncio.StreamReader, near_out: asyncio.StreamWriter) -> None:
        try:
            far, far_out = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            near_out.close()
            return
        await asyncio.gather(pump(near, far_out), pump(far, near_out))

    async def pump(source: asyncio.StreamReader, drain: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                drain.write(data)
        except OSError:
            pass
        finally:
            drain.close()

    server = await asyncio.start_unix_server(carry, path)
    yield
    server.close()


@pytest.fixture
async def nats() -> AsyncIterator[EmbeddedNats]:
    async with running_nats() as server:
        yield server


@pytest.fixture
async def place(tmp_path: Path, nats: EmbeddedNats) -> AsyncIterator[Place]:
    tenant, team = uuid7(), uuid7()
    async with Keeper.at(nats.url, tenant, team) as keeper:
        prepared = Place(tmp_path, keeper, tenant, team)
        async with relay(prepared.run / "bus.sock", int(nats.url.rpartition(":")[2])):
            yield prepared


async def test_a_sidecar_answers_over_its_sockets_and_ends_when_told(place: Place) -> None:
    async def models(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        token = head.partition(b"authorization: ")[2].partition(b"\r\n")[0]
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(token), token))
        writer.close()

    server = await asyncio.start_unix_server(models, place.run / "gateway.sock")
    egress = await asyncio.start_unix_server(models, place.run / "egress.sock")
    keeper = place.keeper
    async with place.sidecar() as process:
        said = await keeper.answer(await keeper.ask("say hello"))
        fetched = await keeper.answer(
            await keeper.ask("fetch /api/ai/x", model_token="the-tokens-secret")
        )
        proxy = await keeper.answer(await keeper.ask("env https_proxy"))
        await keeper.send(Shutdown(seconds=5))
        assert await ended(process) == 0
    assert said.text == "hello"
    assert fetched.text.endswith("bearer the-tokens-secret")
    assert proxy.text.startswith("http://127.0.0.1:")
    assert (place.workspace / ".agentos" / "conversation").read_text() == "talk"
    assert "the-tokens-secret" not in place.log
    assert credentials(place.spec.tenant_id, place.spec.team_id).seed not in place.log
    server.close()
    egress.close()


async def test_killed_at_work_it_asks_again_with_a_note_and_answers_once(place: Place) -> None:
    keeper = place.keeper
    async with place.sidecar() as process:
        message = await keeper.ask("wait go")
        await keeper.started(message)
        await until((place.workspace / "questions.log").exists)
        os.kill(process.pid, signal.SIGKILL)
        assert await ended(process) == -signal.SIGKILL
    (place.workspace / "go").touch()
    async with place.sidecar():
        await keeper.ask("wait go", message_id=message, attempt=2)
        answer = await keeper.answer(message)
    assert (answer.state, answer.text) == ("answered", "go")
    first, second = place.questions
    assert first == "wait go"
    assert second.startswith("[A note from AgentOS")


async def test_killed_with_an_answer_it_gives_it_and_asks_nobody(place: Place) -> None:
    keeper = place.keeper
    keeper.stores = False
    async with place.sidecar() as process:
        message = await keeper.ask("say hello")
        await keeper.answer(message)
        os.kill(process.pid, signal.SIGKILL)
        await ended(process)
    keeper.stores = True
    async with place.sidecar():
        await keeper.ask("say hello", message_id=message, attempt=2)
        assert (await keeper.answer(message)).text == "hello"
    assert place.questions == ["say hello"]


async def test_sigterm_finishes_the_answer_at_hand(place: Place) -> None:
    keeper = place.keeper
    async with place.sidecar() as process:
        message = await keeper.ask("wait go")
        await keeper.started(message)
        process.terminate()
        await keeper.first(Beat, state="stopping")
        (place.workspace / "go").touch()
        assert (await keeper.answer(message)).state == "answered"
        assert await ended(process) == 0


async def test_it_outlives_a_restart_of_the_bus(place: Place, nats: EmbeddedNats) -> None:
    keeper = place.keeper
    async with place.sidecar():
        message = await keeper.ask("wait go")
        await keeper.started(message)
        await nats.stop()
        (place.workspace / "go").touch()
        await until((place.workspace / ".agentos" / "answers" / f"{message}.json").exists)
        await nats.start()
        assert (await keeper.answer(message)).text == "go"
        assert (await keeper.answer(await keeper.ask("say hi"))).text == "hi"


def test_what_a_sidecar_cannot_read_is_said_without_its_content(tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text('{"tenant_id": "secret-value"}')
    places = Places.of_environment({"AGENTOS_RUN_DIR": str(tmp_path)})
    with pytest.raises(BadFile) as error:
        places.spec()
    assert "spec.json" in str(error.value)
    assert "secret-value" not in str(error.value)
    with pytest.raises(BadFile):
        places.credentials()
    ran = subprocess.run(
        [sys.executable, "-c", START],
        env={"AGENTOS_RUN_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    assert "the sidecar cannot go on" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_sidecar_loads_nothing_heavy() -> None:
    code = (
        "import sys; sys.exit = lambda _: None\n"
        f"{START}\n"
        "print(' '.join({name.split('.')[0] for name, it in sys.modules.items() if it}))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={"AGENTOS_RUN_DIR": "/nonexistent"},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(ran.stdout.split())
    assert "nats" in loaded
    assert not loaded & {"aiohttp", "cryptography", "pydantic", "sqlalchemy", "structlog"}
