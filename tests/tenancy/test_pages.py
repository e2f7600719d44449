from __future__ import annotations

import pytest
from tests.gateways import Gateway


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("limit=0", "bad_limit"),
        ("limit=201", "bad_limit"),
        ("limit=-1", "bad_limit"),
        ("limit=", "bad_limit"),
        ("limit=5x", "bad_limit"),
        ("limit=%D9%A5", "bad_limit"),  # a digit, but not one of ours
        ("cursor=!", "bad_cursor"),
        ("cursor=bm90LWFuLWlk", "bad_cursor"),
        ("cursor=%FF", "bad_cursor"),
        ("cursor=" + "A" * 1001, "bad_cursor"),
    ],
)
async def test_a_bad_page_is_refused(gateway: Gateway, query: str, code: str) -> None:
    owner = await gateway.tenant()
    answer = await owner.client.get(f"/api/keys?{query}")
    assert answer.status_code == 422
    assert answer.json()["code"] == code


async def test_pages_follow_each_other_without_gap_or_repetition(gateway: Gateway) -> None:
    owner = await gateway.tenant()
    for _ in range(5):
        await gateway.api_key(owner.tenant_id)
    seen: list[str] = []
    query = "limit=2"
    while True:
        page = (await owner.client.get(f"/api/keys?{query}")).json()
        seen += [item["id"] for item in page["items"]]
        if page["next_cursor"] is None:
            break
        query = f"limit=2&cursor={page['next_cursor']}"
    assert len(seen) == 5
    assert seen == sorted(set(seen))
