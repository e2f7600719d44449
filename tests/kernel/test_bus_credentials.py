"""Team isolation on a real nats-server: every ordered pair of teams, every way across."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import nats
import nats.errors
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nats.aio.client import Client
from nats.aio.msg import Msg

from agentos.kernel.bus import Bus, push_revocations
from agentos.kernel.bus_credentials import (
    MAX_PAYLOAD,
    MOST_REVOCATIONS,
    TEAM_LIFE,
    BadBusId,
    BusAuthority,
    BusCredentials,
)
from agentos.kernel.engines.account import engine_account
from agentos.kernel.engines.nats import EmbeddedNats
from agentos.kernel.errors import Invalid, SetupError, Unavailable

SECRET = bytes(range(32))
AUTHORITY = BusAuthority(SECRET)
HOUR = timedelta(hours=1)

# Two tenants with equally named teams, and names that would collide if '-' separated anything.
TEAMS = [
    ("acme", "red"),
    ("acme", "blue"),
    ("acme", "red-blue"),
    ("acme-red", "blue"),
    ("zed", "red"),
]


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """Under /tmp and passable, because the engine runs as another account when we are root."""
    path = Path(tempfile.mkdtemp(prefix="aos-", dir="/tmp"))
    path.chmod(0o711)
    yield path
    shutil.rmtree(path)


@pytest.fixture
async def server(data_dir: Path) -> AsyncIterator[EmbeddedNats]:
    account = engine_account()
    embedded = EmbeddedNats(data_dir, AUTHORITY, account=account, on_notice=lambda _: None)
    await embedded.start()
    yield embedded
    await embedded.stop()


@dataclass
class Peer:
    """A client that records all it hears and every refusal, with nothing of ours in between."""

    client: Client
    tenant: str
    team: str
    heard: list[tuple[str, bytes]] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def subject(self) -> str:
        return f"tenant.{self.tenant}.team.{self.team}.chat"

    @property
    def inbox(self) -> str:
        return f"_INBOX_{self.tenant}_{self.team}.reply"

    async def listen(self, subject: str, queue: str = "") -> None:
        await self.client.subscribe(subject, queue=queue, cb=self._hear)

    async def _hear(self, msg: Msg) -> None:
        self.heard.append((msg.subject, msg.data))


async def join(url: str, credentials: BusCredentials, tenant: str = "", team: str = "") -> Peer:
    peer = Peer(Client(), tenant, team)

    async def refused(error: Exception) -> None:
        peer.refusals.append(str(error))

    async def closed() -> None:
        peer.closed.set()

    try:
        await peer.client.connect(
            servers=[url],
            user_jwt_cb=lambda: credentials.jwt.encode(),
            signature_cb=credentials.sign,
            inbox_prefix=credentials.inbox_prefix,
            error_cb=refused,
            closed_cb=closed,
            allow_reconnect=False,
        )
    except nats.errors.Error:
        await peer.client.close()
        raise
    return peer


@pytest.fixture
async def platform(server: EmbeddedNats) -> AsyncIterator[Peer]:
    peer = await join(server.url, AUTHORITY.platform_credentials())
    yield peer
    await peer.client.close()


@pytest.fixture
async def system(server: EmbeddedNats) -> AsyncIterator[Bus]:
    bus = await Bus.connect(server.url, AUTHORITY.system_credentials(), name="system")
    yield bus
    await bus.close()


@pytest.fixture
async def teams(server: EmbeddedNats) -> AsyncIterator[dict[tuple[str, str], Peer]]:
    peers = {
        (tenant, team): await join(
            server.url, AUTHORITY.team_credentials(tenant, team, HOUR), tenant, team
        )
        for tenant, team in TEAMS
    }
    yield peers
    for peer in peers.values():
        await peer.client.close()


async def settle(*peers: Peer) -> None:
    """Everything sent has been routed and delivered, twice over for answers to answers."""
    for _ in range(2):
        for peer in peers:
            await peer.client.flush()
        await asyncio.sleep(0.02)


def pairs(teams: dict[tuple[str, str], Peer]) -> list[tuple[Peer, Peer]]:
    return list(itertools.permutations(teams.values(), 2))


async def test_a_team_reaches_itself_and_the_platform_sees_all(
    platform: Peer, teams: dict[tuple[str, str], Peer]
) -> None:
    await platform.listen("tenant.>")
    for peer in teams.values():
        await peer.listen(f"tenant.{peer.tenant}.team.{peer.team}.>")
    await settle(platform, *teams.values())
    for peer in teams.values():
        await peer.client.publish(peer.subject, b"ours")
    await settle(platform, *teams.values())
    for peer in teams.values():
        assert peer.heard == [(peer.subject, b"ours")]
        assert peer.refusals == []
    assert {subject for subject, _ in platform.heard} == {p.subject for p in teams.values()}
    await platform.client.publish("tenant.zed.team.red.chat", b"from the platform")
    await settle(platform, *teams.values())
    assert teams["zed", "red"].heard[-1] == ("tenant.zed.team.red.chat", b"from the platform")


async def test_publishing_never_crosses(platform: Peer, teams: dict[tuple[str, str], Peer]) -> None:
    for peer in teams.values():
        await peer.listen(f"tenant.{peer.tenant}.team.{peer.team}.>")
        await peer.listen(f"_INBOX_{peer.tenant}_{peer.team}.>")
    await settle(*teams.values())
    crossings = pairs(teams)
    for attacker, victim in crossings:
        await attacker.client.publish(victim.subject, b"crossed")
        await attacker.client.publish(victim.inbox, b"crossed")
    await settle(*teams.values())
    assert [peer.heard for peer in teams.values()] == [[]] * len(teams)
    assert sum(len(peer.refusals) for peer in teams.values()) == 2 * len(crossings)


WILDCARDS = [
    ">",
    "*.>",
    "tenant.>",
    "tenant.*.team.>",
    "tenant.*.team.*.chat",
    "tenant.{tenant}.>",
    "tenant.{tenant}.team.>",
    "tenant.{tenant}.team.*.chat",
    "tenant.{tenant}.team.{team}.>",
    "tenant.{tenant}.team.{team}.chat",
    "_INBOX.>",
    "_INBOX_{tenant}_{team}.>",
    "_INBOX_{tenant}_{team}.reply",
    "$JS.>",
    "$SYS.>",
]


@pytest.mark.parametrize("queue", ["", "workers"])
async def test_subscribing_never_crosses(
    platform: Peer, teams: dict[tuple[str, str], Peer], queue: str
) -> None:
    for attacker, victim in pairs(teams):
        for pattern in WILDCARDS:
            subject = pattern.format(tenant=victim.tenant, team=victim.team)
            await attacker.listen(subject, queue)
    await settle(*teams.values())
    for peer in teams.values():
        await peer.client.publish(peer.subject, b"private")
        await peer.client.publish(peer.inbox, b"private")
        await platform.client.publish(peer.subject, b"private")
        await platform.client.publish(peer.inbox, b"private")
    await platform.client.publish("tenant.acme.session.created", b"private")
    await settle(platform, *teams.values())
    assert [peer.heard for peer in teams.values()] == [[]] * len(teams)


async def test_requests_stay_in_the_team(
    server: EmbeddedNats, platform: Peer, teams: dict[tuple[str, str], Peer]
) -> None:
    for attacker, victim in pairs(teams):
        await attacker.listen(f"_INBOX_{victim.tenant}_{victim.team}.>")

    async def answer(msg: Msg) -> None:
        await msg.respond(b"answer")

    for peer in teams.values():
        await peer.client.subscribe(peer.subject, cb=answer)
    await settle(*teams.values())
    for peer in teams.values():
        reply = await peer.client.request(peer.subject, b"question", timeout=2)
        assert reply.data == b"answer"
    for attacker, victim in pairs(teams):
        with pytest.raises(nats.errors.TimeoutError):
            await attacker.client.request(victim.subject, b"question", timeout=0.05)
    await settle(*teams.values())
    assert [peer.heard for peer in teams.values()] == [[]] * len(teams)


async def test_a_reply_subject_smuggles_nothing(
    server: EmbeddedNats, teams: dict[tuple[str, str], Peer]
) -> None:
    """A team asks itself, naming another team's subject for the answer."""

    async def answer(msg: Msg) -> None:
        await msg.respond(b"crossed")

    for peer in teams.values():
        await peer.listen(f"tenant.{peer.tenant}.team.{peer.team}.chat")
        await peer.listen(f"_INBOX_{peer.tenant}_{peer.team}.>")
        await peer.client.subscribe(f"tenant.{peer.tenant}.team.{peer.team}.ask", cb=answer)
    await settle(*teams.values())
    for attacker, victim in pairs(teams):
        own = f"tenant.{attacker.tenant}.team.{attacker.team}.ask"
        await attacker.client.publish(own, b"?", reply=victim.subject)
        await attacker.client.publish(own, b"?", reply=victim.inbox)
    await settle(*teams.values())
    assert [peer.heard for peer in teams.values()] == [[]] * len(teams)


async def test_the_jetstream_and_system_apis_are_out_of_reach(
    server: EmbeddedNats, platform: Peer, teams: dict[tuple[str, str], Peer]
) -> None:
    bus = await Bus.connect(server.url, AUTHORITY.platform_credentials(), name="test")
    await bus.ensure_events_stream(["session"])
    await bus.publish_durable("tenant.acme.session.created", b"private", dedupe_id="1")
    for peer in teams.values():
        deliver = f"tenant.{peer.tenant}.team.{peer.team}.stolen"
        await peer.listen(f"tenant.{peer.tenant}.team.{peer.team}.>")
        consumer = {"deliver_subject": deliver, "deliver_policy": "all", "ack_policy": "none"}
        stream = {"name": "LOOT", "subjects": [deliver]}
        calls: list[tuple[str, Any]] = [
            ("$JS.API.CONSUMER.CREATE.EVENTS", {"stream_name": "EVENTS", "config": consumer}),
            ("$JS.API.STREAM.MSG.GET.EVENTS", {"seq": 1}),
            ("$JS.API.DIRECT.GET.EVENTS", {"seq": 1}),
            ("$JS.API.STREAM.INFO.EVENTS", {}),
            ("$JS.API.STREAM.PURGE.EVENTS", {}),
            ("$JS.API.STREAM.DELETE.EVENTS", {}),
            ("$JS.API.STREAM.CREATE.LOOT", stream),
            ("$SYS.REQ.SERVER.PING", {}),
            (f"$SYS.REQ.ACCOUNT.{AUTHORITY.account_id}.CLAIMS.UPDATE", {}),
            (f"tenant.{peer.tenant}.session.created", {"forged": True}),
        ]
        for subject, body in calls:
            await peer.client.publish(subject, json.dumps(body).encode(), reply=deliver)
        await settle(peer)
        assert len(peer.refusals) == len(calls)
        assert peer.heard == []
    streams = await platform.client.jetstream().streams_info()
    assert [(s.config.name, s.state.messages) for s in streams] == [("EVENTS", 1)]
    await bus.close()


BAD_IDS = [
    "",
    "*",
    ">",
    ".",
    "a.b",
    "a.>",
    "Red",
    "a b",
    "a\n",
    "\n",
    "é",
    "а",
    "a:b",
    "a_b",
    "{{tag(team)}}",
    "a" * 64,
    "\x00",
]


@pytest.mark.parametrize("bad", BAD_IDS)
def test_ids_cannot_be_injected(bad: str) -> None:
    for tenant, team in [(bad, "red"), ("acme", bad)]:
        with pytest.raises(BadBusId) as caught:
            AUTHORITY.team_credentials(tenant, team, HOUR)
        assert caught.value.code == "bad_bus_id"
        with pytest.raises(BadBusId):
            AUTHORITY.team_public_key(tenant, team)


@given(st.text(max_size=70))
def test_only_plain_ids_pass(text: str) -> None:
    plain = 1 <= len(text) <= 63 and set(text) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    try:
        AUTHORITY.team_public_key("acme", text)
    except BadBusId:
        assert not plain
    else:
        assert plain


async def test_an_expired_jwt_is_refused(server: EmbeddedNats) -> None:
    stale = AUTHORITY.team_credentials("acme", "red", timedelta(seconds=-1))
    with pytest.raises(nats.errors.Error, match="Authorization Violation"):
        await join(server.url, stale)


async def test_a_live_connection_ends_with_its_jwt(server: EmbeddedNats) -> None:
    peer = await join(server.url, AUTHORITY.team_credentials("acme", "red", timedelta(seconds=2)))
    await asyncio.wait_for(peer.closed.wait(), 5)


@pytest.mark.parametrize("part", ["sub", "tags", "issuer_account"])
async def test_a_forged_jwt_is_refused(server: EmbeddedNats, part: str) -> None:
    """A changed claim, and a JWT signed with a key of the forger's own."""
    own = BusAuthority(b"f" * 32).team_credentials("acme", "red", HOUR)
    real = AUTHORITY.team_credentials("acme", "red", HOUR)
    header, body, signature = real.jwt.split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    if part == "sub":
        claims["sub"] = own.public_key
    elif part == "tags":
        claims["nats"]["tags"] = ["tenant:acme", "team:blue"]
    else:
        del claims["nats"]["issuer_account"]
    changed = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    seed = own.seed if part == "sub" else real.seed
    forged = BusCredentials(
        real.public_key, "_INBOX", None, f"{header}.{changed}.{signature}", seed
    )
    for credentials in (forged, own):
        with pytest.raises(nats.errors.Error, match="Authorization Violation"):
            await join(server.url, credentials)


async def test_revoking_ends_the_live_connection_and_only_that(
    server: EmbeddedNats, system: Bus, teams: dict[tuple[str, str], Peer], platform: Peer
) -> None:
    old = AUTHORITY.team_credentials("acme", "red", HOUR)
    revoked_at = int(time.time())
    revocations = {AUTHORITY.team_public_key("acme", "red"): revoked_at}
    started = time.perf_counter()
    await push_revocations(system, AUTHORITY, revocations)
    await asyncio.wait_for(teams["acme", "red"].closed.wait(), 1)
    assert time.perf_counter() - started < 1
    with pytest.raises(nats.errors.Error, match="Authorization Violation"):
        await join(server.url, old)
    survivors = [peer for key, peer in teams.items() if key != ("acme", "red")]
    await settle(platform, *survivors)
    assert all(peer.client.is_connected for peer in survivors)
    # Credentials minted in a later second than the revocation are good again.
    await asyncio.sleep(revoked_at + 1 - time.time() + 0.05)
    fresh = await join(server.url, AUTHORITY.team_credentials("acme", "red", HOUR))
    await fresh.client.close()


async def test_pushed_revocations_must_come_from_this_authority(
    server: EmbeddedNats, system: Bus, platform: Peer
) -> None:
    stranger = BusAuthority(b"s" * 32)
    with pytest.raises(Unavailable, match="did not accept"):
        await Bus.connect(server.url, stranger.system_credentials(), name="s", timeout=0.5)
    everybody = {"*": int(time.time()) + 7200}
    with pytest.raises(SetupError, match="refused"):
        await push_revocations(system, _Impostor(SECRET, stranger), everybody)
    await settle(platform)
    assert platform.client.is_connected


class _Impostor(BusAuthority):
    """Names our account in a request, and signs its claims with a key of its own."""

    def __init__(self, secret: bytes, signer: BusAuthority) -> None:
        super().__init__(secret)
        self._operator = signer._operator


async def test_as_many_revocations_as_allowed_fit(
    system: Bus, teams: dict[tuple[str, str], Peer]
) -> None:
    until = int(time.time()) + 7200
    key = AUTHORITY.team_public_key("acme", "red")
    others = (f"U{n:055d}" for n in range(MOST_REVOCATIONS - 1))
    revocations = dict.fromkeys([key, *others], until)
    assert len(AUTHORITY.account_jwt(revocations)) < MAX_PAYLOAD
    await push_revocations(system, AUTHORITY, revocations)
    await asyncio.wait_for(teams["acme", "red"].closed.wait(), 5)


def test_no_credentials_outlive_their_revocation() -> None:
    AUTHORITY.team_credentials("acme", "red", TEAM_LIFE)
    with pytest.raises(Invalid):
        AUTHORITY.team_credentials("acme", "red", TEAM_LIFE + timedelta(seconds=1))


def test_the_same_secret_means_the_same_trust() -> None:
    twin = BusAuthority(SECRET)
    assert twin.cluster_config() == AUTHORITY.cluster_config()
    assert twin.platform_credentials() == AUTHORITY.platform_credentials()
    assert BusAuthority(b"x" * 32).account_id != AUTHORITY.account_id


def test_keys_are_all_different() -> None:
    keys = [
        AUTHORITY.platform_credentials().public_key,
        AUTHORITY.system_credentials().public_key,
        *(AUTHORITY.team_public_key(tenant, team) for tenant, team in TEAMS),
    ]
    assert len(set(keys)) == len(keys)


def test_cluster_config_is_only_the_trust_part() -> None:
    config = AUTHORITY.cluster_config()
    assert [line.split(":")[0].split()[0] for line in config.splitlines() if line[0] != " "] == [
        "operator",
        "system_account",
        "resolver",
        "resolver_preload",
        "}",
    ]


@pytest.mark.parametrize("length", [0, 31, 33])
def test_the_secret_has_32_bytes(length: int) -> None:
    with pytest.raises(SetupError):
        BusAuthority(b"x" * length)


def test_no_secret_is_shown() -> None:
    mint: list[Callable[[], BusCredentials]] = [
        AUTHORITY.platform_credentials,
        AUTHORITY.system_credentials,
        lambda: AUTHORITY.team_credentials("acme", "red", HOUR),
    ]
    for credentials in (make() for make in mint):
        shown = repr(credentials) + str(credentials) + repr(AUTHORITY) + AUTHORITY.cluster_config()
        assert credentials.seed not in shown
        assert credentials.jwt not in shown
        assert str(SECRET) not in shown
    # Seeds start with S and the role: operator, account, user.
    words = AUTHORITY.cluster_config().split()
    assert not [word for word in words if word.startswith(("SO", "SA", "SU"))]
