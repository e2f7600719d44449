from __future__ import annotations

import pytest

from agentos.kernel.settings import Settings


@pytest.mark.parametrize(
    ("public_url", "url", "origin", "base_path"),
    [
        ("https://example.com", "https://example.com", "https://example.com", ""),
        ("https://example.com/", "https://example.com", "https://example.com", ""),
        ("https://Example.com/a/", "https://Example.com/a", "https://example.com", "/a"),
        (
            "https://example.com:443/a/b",
            "https://example.com:443/a/b",
            "https://example.com",
            "/a/b",
        ),
        ("http://h:8080/apix", "http://h:8080/apix", "http://h:8080", "/apix"),
        ("http://[::1]:9000", "http://[::1]:9000", "http://[::1]:9000", ""),
    ],
)
def test_the_address_users_see_has_an_origin_and_a_path(
    public_url: str, url: str, origin: str, base_path: str
) -> None:
    settings = Settings(public_url=public_url)
    assert (settings.url, settings.origin, settings.base_path) == (url, origin, base_path)


def test_without_one_it_is_the_address_we_listen_on() -> None:
    settings = Settings(host="0.0.0.0", port=9000, public_url=None)
    assert (settings.origin, settings.base_path) == ("http://127.0.0.1:9000", "")


@pytest.mark.parametrize(
    "public_url",
    [
        "example.com",
        "ftp://example.com",
        "https://",
        "https://user@example.com",
        "https://example.com:none",
        "https://example.com:0",
        "https://example.com/?a=b",
        "https://example.com/#a",
        'https://example.com/"><script>',
        "https://example.com/a/../b",
        "https://example.com//a",
        "https://example.com/a b",
        "https://example.com/api",
        "https://example.com/health/a",
        "https://example.com/assets",
    ],
)
def test_what_is_no_address_is_refused(public_url: str) -> None:
    with pytest.raises(ValueError, match="public_url"):
        Settings(public_url=public_url)
