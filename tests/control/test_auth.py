from __future__ import annotations

import httpx
import pytest
from tests.gateways import Gateway

PASSWORD = "correct horse battery staple"


async def register(
    gateway: Gateway, email: str = "ada@example.com", slug: str = "engines"
) -> httpx.Response:
    client = await gateway.client()
    return await client.post(
        "/api/auth/register",
        json={
            "email": email,
            "name": "Ada",
            "password": PASSWORD,
            "tenant_name": "Engines",
            "tenant_slug": slug,
        },
    )


async def test_register_sign_in_and_see_who_you_are(gateway: Gateway) -> None:
    assert (await register(gateway)).status_code == 201
    client = await gateway.client()
    answer = await client.post(
        "/api/auth/token", json={"email": "Ada@Example.com", "password": PASSWORD}
    )
    assert answer.status_code == 200, answer.text
    me = await gateway.client(answer.json()["access_token"])
    who = (await me.get("/api/auth/me")).json()
    assert who["email"] == "ada@example.com"
    assert who["role"] == "owner"
    assert who["tenant_slug"] == "engines"
    assert [tenant["slug"] for tenant in who["tenants"]] == ["engines"]


@pytest.mark.parametrize("email", ["ada@example.com", "nobody@example.com"])
async def test_wrong_password_and_unknown_user_look_the_same(gateway: Gateway, email: str) -> None:
    await register(gateway)
    client = await gateway.client()
    answer = await client.post("/api/auth/token", json={"email": email, "password": "wrong"})
    assert answer.status_code == 401
    assert answer.json()["code"] == "wrong_credentials"


async def test_a_taken_address_or_slug_changes_nothing(gateway: Gateway) -> None:
    await register(gateway)
    assert (await register(gateway, slug="other")).json()["code"] == "email_taken"
    assert (await register(gateway, email="b@example.com")).json()["code"] == "slug_taken"
    assert (await register(gateway, email="b@example.com", slug="other")).status_code == 201


async def test_refresh_rotates_and_reuse_ends_the_sign_in(gateway: Gateway) -> None:
    first = (await register(gateway)).json()
    client = await gateway.client()
    second = await client.post("/api/auth/refresh", json={"refresh_token": first["refresh_token"]})
    assert second.status_code == 200
    reused = await client.post("/api/auth/refresh", json={"refresh_token": first["refresh_token"]})
    assert reused.json()["code"] == "refresh_token_reused"
    dead = await client.post(
        "/api/auth/refresh", json={"refresh_token": second.json()["refresh_token"]}
    )
    assert dead.json()["code"] == "sign_in_ended"


async def test_invitation_brings_a_new_person_in(gateway: Gateway) -> None:
    owner = await gateway.tenant()
    invited = await owner.client.post(
        "/api/invitations", json={"email": "grace@example.com", "role": "admin"}
    )
    assert invited.status_code == 201, invited.text
    client = await gateway.client()
    token = invited.json()["token"]
    missing = await client.post(
        "/api/auth/accept-invitation", json={"token": token, "password": PASSWORD}
    )
    assert missing.json()["code"] == "name_needed"
    joined = await client.post(
        "/api/auth/accept-invitation",
        json={"token": token, "password": PASSWORD, "name": "Grace"},
    )
    assert joined.status_code == 201, joined.text
    again = await client.post(
        "/api/auth/accept-invitation",
        json={"token": token, "password": PASSWORD, "name": "Grace"},
    )
    assert again.json()["code"] == "invitation_invalid"
    members = (await owner.client.get("/api/members")).json()["items"]
    assert {m["email"] for m in members} == {owner.email, "grace@example.com"}
