"""A whole AgentOS in a process of its own, for tests that use it as a browser does."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

PASSWORD = "correct horse battery staple"


@dataclass(frozen=True)
class Person:
    """Somebody who can sign in."""

    email: str
    password: str


@dataclass(frozen=True)
class Tenant:
    """A tenant of its own, with its owner and the API as a script uses it."""

    id: str
    slug: str
    owner: Person
    api: httpx.Client

    def call(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        """What the API answers; raises if it refuses."""
        response = self.api.request(method, path, json=body, **options)
        assert response.is_success, f"{method} {path}: {response.status_code} {response.text}"
        return response.json() if response.content else None

    def invite(self, role: str) -> Person:
        """Another person of this tenant."""
        count = len(self.call("GET", "/api/members")["items"])
        email = f"{role}{count}@{self.slug}.example"
        invited = self.call("POST", "/api/invitations", {"email": email, "role": role})
        joined = httpx.post(
            self.api.base_url.join("/api/auth/accept-invitation"),
            json={
                "token": invited["token"],
                "name": f"{role.title()} {count}",
                "password": PASSWORD,
            },
        )
        assert joined.is_success, joined.text
        return Person(email, PASSWORD)


@dataclass(frozen=True)
class Installation:
    url: str
    process: subprocess.Popen[bytes]
    demo: dict[str, str]

    def tenant(self, slug: str) -> Tenant:
        """A new tenant with an owner; nothing else is in it."""
        with self._client(self.demo["api_key"]) as platform:
            signed_in = platform.post(
                "/api/auth/token",
                json={"email": self.demo["email"], "password": self.demo["password"]},
            ).json()
        email = f"owner@{slug}.example"
        with self._client(signed_in["access_token"]) as platform:
            made = platform.post(
                "/api/platform/tenants",
                json={"name": slug.title(), "slug": slug, "plan": "pro", "owner_email": email},
            )
            assert made.is_success, made.text
            joined = platform.post(
                "/api/auth/accept-invitation",
                json={
                    "token": made.json()["invitation_token"],
                    "name": "Olive Owner",
                    "password": PASSWORD,
                },
            )
            assert joined.is_success, joined.text
        return Tenant(
            made.json()["id"],
            slug,
            Person(email, PASSWORD),
            self._client(self._key(joined.json()["access_token"])),
        )

    def _key(self, access_token: str) -> str:
        with self._client(access_token) as owner:
            made = owner.post("/api/keys", json={"name": "tests"})
            assert made.is_success, made.text
            key: str = made.json()["key"]
            return key

    def _client(self, credential: str) -> httpx.Client:
        headers = {"Authorization": f"Bearer {credential}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=30)


@contextmanager
def installed(*arguments: str, env: dict[str, str] | None = None) -> Iterator[Installation]:
    """`agentos up` on ports of its own, stopped in the end."""
    with tempfile.TemporaryDirectory(prefix="agentos-web-") as place:
        # The engines run as another account, which has to get in.
        Path(place).chmod(0o755)
        command = [sys.executable, "-m", "agentos.cli.main", "up", "--json", "--port", "0"]
        command += ["--data-dir", f"{place}/data", *arguments]
        with Path(place, "log").open("w+b") as log:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=env)
            try:
                assert process.stdout is not None
                line = process.stdout.readline()
                assert line, Path(place, "log").read_text()
                told = json.loads(line)
                yield Installation(told["url"], process, told["demo"])
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(60)
                assert process.stdout is not None
                process.stdout.close()
