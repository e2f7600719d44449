"""`agentos up`, `serve` and `worker`: the processes of an installation."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path

import uvloop

from agentos import web_build
from agentos.contracts.events import subject_roots
from agentos.control.platform.demo import Demo, ensure_demo
from agentos.execution.crews.parts import CrewParts, Runtimes
from agentos.execution.pulse.parts import PulseParts, pulse_parts
from agentos.execution.worker import Worker
from agentos.gateway.parts import Parts
from agentos.integrations.models.parts import ModelParts
from agentos.kernel import tracing
from agentos.kernel.bus import Bus, assert_sync_always
from agentos.kernel.clock import SystemClock
from agentos.kernel.crypto import derive
from agentos.kernel.database import Database
from agentos.kernel.engines.account import create_data_directory, engine_account
from agentos.kernel.installation import (
    Addresses,
    Say,
    addresses,
    bus_authority,
    embedded_engines,
    prepare_database,
)
from agentos.kernel.logs import configure_logging, get_logger
from agentos.kernel.objects import ObjectStore
from agentos.kernel.secret_key import load_secret_key
from agentos.kernel.settings import Settings, load_settings
from agentos.tenancy.tokens import Tokens
from agentos.tenancy.vault.keyring import open_keyring
from agentos.tenancy.vault.service import Vault

log = get_logger(__name__)


def up(
    *,
    data_dir: Path | None,
    host: str | None,
    port: int | None,
    demo: bool,
    as_json: bool,
) -> None:
    """Everything on this machine in one process, with the engines beside it."""
    settings = _settings(data_dir=data_dir, host=host, port=port)
    say: Say = _quiet if as_json else _progress
    _run(_up(settings, demo, as_json, say))


def serve(*, host: str | None, port: int | None) -> None:
    """The gateway alone."""
    settings = _settings(host=host, port=port)
    _run(_serve(settings))
    log.info("stopped")


def worker() -> None:
    """A worker alone."""
    _run(_work(_settings()))
    log.info("stopped")


async def _up(settings: Settings, demo: bool, as_json: bool, say: Say) -> None:
    # Here, not above: a worker alone would carry 15 MB of a gateway that it does not have.
    from agentos.gateway.app import create_gateway
    from agentos.gateway.server import Server

    async with AsyncExitStack() as stack:
        # Taken first: a port in use should be said before anything has been started.
        server = Server(settings.host, settings.port)
        stack.callback(server.close)
        # Before the key, which would make the directory without asking who has to get into it.
        create_data_directory(settings.data_dir, engine_account())
        key = load_secret_key(settings)
        stack.callback(say, "Stopped")
        where = await stack.enter_async_context(embedded_engines(settings, key, say))
        parts = await stack.enter_async_context(_connect(settings, key, where, say))
        entrance = await _demo(parts, key) if demo else None
        models = parts.models(parts.outbox())
        await stack.enter_async_context(models.running())
        worker = await _worker(parts, models, where, server.address)
        task = await stack.enter_async_context(_background(worker.run()))
        await stack.enter_async_context(
            server.running(create_gateway(parts, models, demo=entrance))
        )
        stack.callback(say, "Stopping")
        _announce(server.url(settings), entrance, as_json)
        await _failure_of(task)


async def _serve(settings: Settings) -> None:
    from agentos.gateway.app import create_gateway
    from agentos.gateway.server import Server

    key = load_secret_key(settings)
    with contextlib.closing(Server(settings.host, settings.port)) as server:
        async with (
            _connect(settings, key, addresses(settings, key), _logged) as parts,
            server.running(create_gateway(parts)),
        ):
            log.info("serving", url=server.url(settings))
            await asyncio.Event().wait()


async def _work(settings: Settings) -> None:
    key = load_secret_key(settings)
    where = addresses(settings, key)
    async with _connect(settings, key, where, _logged) as parts:
        models = parts.models(parts.outbox())
        gateway = settings.gateway_url or settings.url
        worker = await _worker(parts, models, where, gateway)
        async with models.running(warm=False), _background(worker.run()) as task:
            log.info("working")
            await _failure_of(task)


@asynccontextmanager
async def _connect(
    settings: Settings, key: bytes, where: Addresses, say: Say
) -> AsyncIterator[Parts]:
    """Connections to every part, checked, with the schema up to date."""
    tracing.configure_tracing(settings.otlp_endpoint, "agentos")
    async with AsyncExitStack() as stack:
        stack.push_async_callback(asyncio.to_thread, tracing.shutdown_tracing)
        # First what may be wrong in the settings, then what changes anything.
        keyring, objects = open_keyring(settings), _object_store(settings)
        await prepare_database(settings, key, where, say)
        db = await Database.connect(where.runtime, size=settings.database_pool_size, name="agentos")
        stack.push_async_callback(db.close)
        platform_db = await Database.connect(where.platform, size=4, name="agentos-platform")
        stack.push_async_callback(platform_db.close)
        bus_watch = _BusWatch()
        bus = await Bus.connect(
            where.nats,
            bus_authority(key).platform_credentials(),
            name="agentos",
            on_state=bus_watch.changed,
        )
        stack.push_async_callback(bus.close)
        stack.callback(bus_watch.leave)
        await bus.ensure_events_stream(subject_roots())
        if where.nats_monitor is not None:
            await assert_sync_always(where.nats_monitor)
        _spare_the_collector()
        yield Parts(
            settings=settings,
            secret_key=key,
            clock=SystemClock(),
            db=db,
            platform_db=platform_db,
            bus=bus,
            objects=objects,
            keyring=keyring,
        )


def _spare_the_collector() -> None:
    """What was loaded by now stays for good. Looking through all of it again and again took a
    third of the gateway's time, in pauses of a tenth of a second.
    """
    gc.collect()
    gc.freeze()


def _object_store(settings: Settings) -> ObjectStore:
    url = settings.object_store_url
    return ObjectStore.open(url.get_secret_value() if url else None, settings.data_dir)


async def _worker(parts: Parts, models: ModelParts, where: Addresses, gateway: str) -> Worker:
    """A worker whose teams reach their models through the gateway at this URL."""
    pulse = await pulse_parts(
        parts.settings,
        parts.clock,
        db=parts.db,
        platform_db=parts.platform_db,
        bus=parts.bus,
        objects=parts.objects,
        vault=Vault(parts.keyring),
        outbox=parts.outbox(),
        router=models.router,
    )
    return Worker(
        parts.settings,
        parts.platform_db,
        parts.bus,
        parts.objects,
        parts.clock,
        pulse,
        _crew(parts, pulse, where, gateway),
        where.embedded_nats,
    )


def _crew(parts: Parts, pulse: PulseParts, where: Addresses, gateway: str) -> CrewParts:
    settings, key = parts.settings, parts.secret_key
    return CrewParts(
        settings=settings,
        db=parts.db,
        platform_db=parts.platform_db,
        bus=parts.bus,
        bus_url=where.nats,
        gateway_url=gateway,
        authority=bus_authority(key),
        tokens=Tokens(key, parts.clock, timedelta(seconds=settings.access_token_seconds)),
        outbox=pulse.outbox,
        clock=parts.clock,
        objects=parts.objects,
        vault=pulse.vault,
        workspaces=pulse.workspaces,
        runtimes=Runtimes(settings, pulse.sandbox, derive(key, "installation").hex()[:16]),
    )


async def _demo(parts: Parts, key: bytes) -> Demo | None:
    return await ensure_demo(parts.platform_db, key, parts.outbox(), parts.clock)


@asynccontextmanager
async def _background(work: Coroutine[None, None, None]) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        # More than once: the bus's client may swallow a cancellation while it flushes.
        while not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=1)
        if not task.cancelled():
            task.result()


async def _failure_of(task: asyncio.Task[None]) -> None:
    """Waits for ever, unless a background task ends, which means that it has failed."""
    # Not `await task`: cancelling this must leave it running until its turn to stop comes.
    await asyncio.wait({task})
    await task


def _settings(**overrides: object) -> Settings:
    given = {name: value for name, value in overrides.items() if value is not None}
    settings = load_settings(**given)
    configure_logging(settings.log_level, settings.log_format)
    return settings


def _run(main: Coroutine[None, None, None]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_until_signal(main))


async def _until_signal(main: Coroutine[None, None, None]) -> None:
    """Runs `main` until SIGINT or SIGTERM cancels it, wherever it is; it stops what it started."""
    task = asyncio.create_task(main)
    told = asyncio.Event()

    def stop() -> None:
        # Once: a second Ctrl-C must not cut the orderly end short.
        if not told.is_set():
            told.set()
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    try:
        await task
    except asyncio.CancelledError:
        if not told.is_set():
            raise


class _BusWatch:
    """Tells the log when the bus goes and comes back, until we leave it ourselves."""

    def __init__(self) -> None:
        self._leaving = False
        self._lost = False

    def leave(self) -> None:
        self._leaving = True

    def changed(self, state: str) -> None:
        lost = state != "connected"
        if lost != self._lost and not self._leaving:
            log.warning("the bus is away" if lost else "the bus is back")
        self._lost = lost


def _progress(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


def _quiet(_: str) -> None:
    return None


def _logged(text: str) -> None:
    log.info(text)


def _command() -> str:
    """How to call `agentos` from where we are."""
    if shutil.which("agentos"):
        return "agentos"
    script = Path(sys.argv[0])
    return os.path.relpath(script) if script.name == "agentos" else "agentos"


def _where(url: str) -> str:
    if (web_build.UI / "index.html").is_file():
        place = f"AgentOS is running. Open {url} in a browser."
    else:
        place = f"AgentOS is running at {url}"
    wrong = web_build.complaint()
    return place if wrong is None else f"{place}\n{wrong}"


def _announce(url: str, demo: Demo | None, as_json: bool) -> None:
    if as_json:
        entrance = (
            None
            if demo is None
            else {"email": demo.email, "password": demo.password, "api_key": demo.api_key}
        )
        print(json.dumps({"url": url, "demo": entrance}), flush=True)
        return
    lines = ["", _where(url), ""]
    if demo is not None:
        lines += [
            f"  Sign in    {demo.email}",
            f"  Password   {demo.password}",
            f"  API key    {demo.api_key}",
            "",
            "In another terminal:",
            f"  export AGENTOS_URL={url} AGENTOS_API_KEY={demo.api_key}",
            f'  {_command()} run "Write a haiku generator in Python and test it"',
            f"  {_command()} sessions list",
            f"  {_command()} models list",
            f"  {_command()} events tail",
            "",
        ]
    lines += ["Ctrl-C stops everything; your data stays.", ""]
    print("\n".join(lines), flush=True)
