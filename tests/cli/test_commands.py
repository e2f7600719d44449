"""Every group of commands against a real gateway, as a user runs them."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from tests.gateways import Gateway

from agentos.execution.relay import Relay
from agentos.kernel.clock import MovableClock
from agentos.kernel.settings import Settings

from .conftest import Cli

PASSWORD = "correct horse battery staple"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path, signup="open", anonymous_requests_per_minute=100_000)


@pytest.fixture
async def owner(cli: Cli, gateway: Gateway) -> Cli:
    """The command with the API key of a tenant's own."""
    person = await gateway.tenant()
    key = await gateway.api_key(person.tenant_id)
    return Cli(cli.env | {"AGENTOS_URL": gateway.url, "AGENTOS_API_KEY": key})


async def _register(gateway: Gateway, email: str, slug: str) -> None:
    client = await gateway.client()
    body = {"email": email, "name": "Ada", "password": PASSWORD}
    body |= {"tenant_name": slug.title(), "tenant_slug": slug}
    answer = await client.post("/api/auth/register", json=body)
    assert answer.status_code == 201, answer.text


async def test_login_refresh_logout(cli: Cli, gateway: Gateway, clock: MovableClock) -> None:
    await _register(gateway, "ada@test.example", "engines")
    url = ("--url", gateway.url)
    wrong = await cli(
        "login", *url, "--email", "ada@test.example", "--password-stdin", stdin="no\n", code=3
    )
    assert "password is wrong" in wrong.err
    done = await cli(
        *("login", *url, "--email", "ada@test.example", "--password-stdin"), stdin=f"{PASSWORD}\n"
    )
    assert done.out == f"Signed in to {gateway.url} as Ada, in the tenant engines.\n"
    assert (await cli("whoami", "--json")).json["tenant_slug"] == "engines"

    clock.advance(timedelta(hours=1))  # the access token has expired for the gateway
    together = await asyncio.gather(*(cli("whoami", "--json") for _ in range(3)))
    assert {result.json["email"] for result in together} == {"ada@test.example"}

    await cli("tenants", "update", "--slug", "engines-2")
    clock.advance(timedelta(hours=1))  # the refresh has to name the new slug
    shown = await cli("whoami")
    assert "engines-2" in shown.out

    await cli("logout")
    assert "agentos login" in (await cli("whoami", code=3)).err


async def test_login_with_a_key(owner: Cli, cli: Cli, gateway: Gateway) -> None:
    key = owner.env["AGENTOS_API_KEY"]
    done = await cli("login", "--url", gateway.url, "--api-key", "-", "--json", stdin=f"{key}\n")
    assert done.json["kind"] == "api_key"
    assert "scopes" in (await cli("whoami")).out
    await cli("login", "--url", gateway.url, "--api-key", "sk_nonsense", code=3)
    assert (await cli("login", code=2)).err.startswith("Error: Who is signing in?")


async def test_tenants(owner: Cli) -> None:
    shown = (await owner("tenants", "show", "--json")).json
    assert shown["plan"] == "pro"
    assert {limit["name"] for limit in shown["limits"]} >= {"vault_secrets", "api_keys"}
    assert "vault secrets" in (await owner("tenants", "show")).out
    settings = Path(owner.env["HOME"]) / "settings.json"
    settings.write_text('{"time_zone": "Europe/Berlin"}')
    changed = await owner(
        "tenants", "update", "--name", "New", "--settings", str(settings), "--json"
    )
    assert changed.json["name"] == "New"
    assert changed.json["settings"] == {"time_zone": "Europe/Berlin"}
    assert "Nothing to change" in (await owner("tenants", "update", code=2)).err
    settings.write_text("[1]")
    await owner("tenants", "update", "--settings", str(settings), code=2)
    await owner("tenants", "list", "--all", code=4)


async def test_platform_tenants(cli: Cli, gateway: Gateway) -> None:
    person = await gateway.tenant()
    admin = await gateway.member(person.tenant_id, platform_admin=True)
    as_admin = Cli(cli.env | {"AGENTOS_URL": gateway.url, "AGENTOS_API_KEY": admin.token})
    made = (
        await as_admin("tenants", "create", "lovelace", "--owner", "ada@test.example", "--json")
    ).json
    assert made["plan"] == "free"
    assert "lovelace" in (await as_admin("tenants", "list", "--all")).out
    changed = await as_admin(
        *("tenants", "plan", "lovelace", "--to", "pro", "--limit", "team_members=25"),
        *("--limit", "dreams=unlimited", "--json"),
    )
    assert changed.json["plan"] == "pro"
    assert changed.json["limits"] == {"team_members": 25, "dreams": None}
    await as_admin("tenants", "plan", "lovelace", "--limit", "nonsense", code=2)
    await as_admin("tenants", "plan", "nobody", "--to", "pro", code=5)
    joined = await cli(
        *("members", "accept", made["invitation_token"], "--name", "Ada", "--password-stdin"),
        *("--url", gateway.url, "--json"),
        stdin=f"{PASSWORD}\n",
    )
    assert joined.json["role"] == "owner"
    assert "lovelace" in (await cli("tenants", "list")).out


async def test_members(owner: Cli, cli: Cli, gateway: Gateway) -> None:
    assert "No open invitations" in (await owner("members", "invitations")).out
    invited = await owner("members", "invite", "grace@test.example")
    token = re.search(r"inv_\w+", invited.out)
    assert token is not None
    assert "grace@test.example" in (await owner("members", "invitations")).out
    await cli(
        *("members", "accept", token[0], "--name", "Grace", "--password-stdin", "--url"),
        gateway.url,
        stdin=f"{PASSWORD}\n",
    )
    role = await owner("members", "role", "grace@test.example", "admin", "--json")
    assert role.json["role"] == "admin"
    listed = (await owner("members", "list", "--json")).json
    assert [member["role"] for member in listed] == ["owner", "admin"]
    assert "grace@test.example" in (await owner("members", "list")).out
    await owner("members", "remove", "grace@test.example")
    await owner("members", "remove", "grace@test.example", code=5)
    await owner("members", "invite", "second@test.example")
    await owner("members", "revoke-invitation", "second@test.example")
    assert (await owner("members", "invitations", "--json")).json == []


async def test_keys(owner: Cli) -> None:
    made = await owner(
        "keys", "create", "ci", "--scope", "vault:read", "--expires", "90d", "--json"
    )
    key = made.json["key"]
    assert made.json["scopes"] == ["vault:read"]
    assert "No secrets yet" in (await owner("vault", "list", AGENTOS_API_KEY=key)).out
    refused = await owner("keys", "list", AGENTOS_API_KEY=key, code=4)
    assert "keys:read" in refused.err
    await owner("keys", "revoke", made.json["id"])
    await asyncio.sleep(1.1)  # how long a gateway trusts what it has read
    assert "agentos login" in (await owner("vault", "list", AGENTOS_API_KEY=key, code=3)).err
    assert "revoked" in (await owner("keys", "list")).out
    shown = await owner("keys", "create", "other", "--expires", "2099-01-01")
    assert "sk_" in shown.out
    await owner("keys", "create", "bad", "--expires", "soon", code=2)
    await owner("keys", "revoke", "../../auth/logout", code=2)


async def test_vault(owner: Cli) -> None:
    value = "a-secret-value-4f1c"
    stored = await owner("vault", "set", "OPENAI", "--json", stdin=f"{value}\n")
    assert (stored.json["version"], stored.json["last_four"]) == (1, "4f1c")
    await owner("vault", "set", "OPENAI", "--value-from-env", "KEY", KEY="another-secret-99aa")
    await owner("vault", "set", "OPENAI", "--value-from-env", "MISSING", code=2)
    pem = "-----BEGIN-----\nabc\n-----END-----\n"
    await owner("vault", "set", "pem", stdin=pem)
    await owner("vault", "set", "empty", stdin="", code=2)
    listed = await owner("vault", "list")
    assert "OPENAI" in listed.out
    assert "99aa" in (await owner("vault", "show", "OPENAI")).out
    rotated = await owner("vault", "rotate", "--json")
    assert rotated.json == {"version": 2, "reencrypted": 2}
    await owner("vault", "delete", "OPENAI")
    assert "no such thing" in (await owner("vault", "show", "OPENAI", code=5)).err
    everything = json.dumps([(await owner("audit", "list", "--json")).json, listed.out])
    assert value not in everything


async def test_audit(owner: Cli, tmp_path: Path) -> None:
    await owner("vault", "set", "A", stdin="value-one-two-three")
    await owner("vault", "set", "A", stdin="value-one-two-four")
    found = (await owner("audit", "list", "--action", "secret.stored", "--json")).json
    assert [entry["after"]["version"] for entry in found] == [2, 1]
    assert "version: 1 → 2" in (await owner("audit", "list", "--since", "1h", "--limit", "1")).out
    assert "No entries match" in (await owner("audit", "list", "--until", "1d")).out
    lines = (await owner("audit", "export")).out.splitlines()
    assert {json.loads(line)["action"] for line in lines} >= {"secret.stored"}
    target = tmp_path / "audit.csv"
    await owner("audit", "export", "--format", "csv", "-o", str(target))
    assert target.read_text().startswith("id,at,actor_kind")
    await owner("audit", "export", "--format", "xml", code=2)


def _named(place: Path, part: str) -> list[Path]:
    return list(place.glob(f"*{part}*"))


async def test_objects(owner: Cli, tmp_path: Path) -> None:
    source, target = tmp_path / "data.bin", tmp_path / "copy.bin"
    source.write_bytes(bytes(range(256)) * 4000)
    stored = await owner("objects", "put", str(source), "a b/ü?#.bin", "--json")
    assert stored.json["size"] == 1_024_000
    piped = await owner("objects", "put", "-", "notes.txt", "--json", stdin="hello")
    assert piped.json["content_type"] == "text/plain"
    listed = await owner("objects", "list", "a b/")
    assert "ü?#.bin" in listed.out
    assert "notes" not in listed.out
    await owner("objects", "get", "a b/ü?#.bin", "-o", str(target))
    assert target.read_bytes() == source.read_bytes()
    assert (await owner("objects", "get", "notes.txt", "-o", "-")).out == "hello"
    await owner("objects", "delete", "notes.txt")
    await owner("objects", "get", "notes.txt", "-o", str(tmp_path / "gone"), code=5)
    assert _named(tmp_path, "gone") == []
    await owner("objects", "put", str(tmp_path / "missing"), code=5)
    await owner("objects", "put", "-", code=2)


async def test_events(owner: Cli, gateway: Gateway) -> None:
    relay = asyncio.create_task(Relay(gateway.parts.platform_db, gateway.parts.bus).run())
    tail = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "agentos.cli.main", "events", "tail", "--types", "secret.*"),
        *("--after", "0", "--json"),
        env=owner.env,
        stdout=asyncio.subprocess.PIPE,
    )
    assert tail.stdout is not None
    try:
        await owner("vault", "set", "A", stdin="some-secret-value")
        first = json.loads(await asyncio.wait_for(tail.stdout.readline(), 20))
        assert (first["type"], first["data"]["name"]) == ("secret.stored", "A")
        await owner("vault", "delete", "A")
        second = json.loads(await asyncio.wait_for(tail.stdout.readline(), 20))
        assert (second["type"], second["seq"]) == ("secret.deleted", first["seq"] + 1)
        tail.send_signal(2)
        assert await asyncio.wait_for(tail.wait(), 10) == 130
    finally:
        if tail.returncode is None:
            tail.kill()
            await tail.wait()
        relay.cancel()
        await asyncio.gather(relay, return_exceptions=True)
    history = await owner("events", "list", "--types", "secret.*", "--json")
    assert [event["type"] for event in history.json] == ["secret.stored", "secret.deleted"]
    assert "secret.deleted" in (await owner("events", "list")).out
    await owner("events", "list", "--types", "nonsense", code=2)
