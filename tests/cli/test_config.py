from __future__ import annotations

from pathlib import Path

import pytest

from agentos.cli.config import effective
from agentos.kernel.settings import load_settings

from .conftest import Cli

KEY = "ab" * 32


async def test_every_setting_with_where_it_comes_from(cli: Cli, tmp_path: Path) -> None:
    shown = await cli(
        "config",
        "--json",
        DATABASE_URL="postgresql://owner:hunter22@db.example:5432/agentos?sslmode=require",
        NATS_URL="nats://token-1234@one:4222,nats://two:4222",
        AGENTOS_SECRET_KEY=KEY,
        agentos_port="9000",
    )
    settings = {setting["name"]: setting for setting in shown.json}
    assert settings["database_url"] == {
        "name": "database_url",
        "variable": "DATABASE_URL",
        "value": "postgresql://owner:•••@db.example:5432/agentos?•••",
        "source": "environment",
        "description": settings["database_url"]["description"],
    }
    assert settings["nats_url"]["value"] == "nats://•••@one:4222,nats://two:4222"
    assert settings["secret_key"]["value"] == "•••"
    assert settings["kek"] == settings["kek"] | {"value": None, "source": "default"}
    assert (settings["port"]["value"], settings["port"]["source"]) == (9000, "environment")
    assert settings["data_dir"]["value"] == str(tmp_path / "data")
    assert settings["log_level"]["value"] == "info"
    for secret in ("hunter22", "token-1234", KEY):
        assert secret not in shown.out


def test_files_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "agentos.env").write_text("AGENTOS_PORT=9100\nAGENTOS_HOST=0.0.0.0\nNATS_URL=\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENTOS_HOST", "::1")
    found = {setting["name"]: setting for setting in effective(load_settings())}
    assert (found["port"]["value"], found["port"]["source"]) == (9100, "agentos.env")
    assert (found["host"]["value"], found["host"]["source"]) == ("::1", "environment")
    assert found["nats_url"]["source"] == "default"


async def test_a_table_for_people(cli: Cli) -> None:
    shown = await cli("config")
    assert "AGENTOS_PUBLIC_URL" in shown.out


async def test_help_lists_all_settings_even_if_one_is_wrong(cli: Cli) -> None:
    shown = await cli("config", "--help", AGENTOS_PORT="many")
    assert "AGENTOS_KEK" in shown.out
    assert "Port to listen on." in shown.out


async def test_a_wrong_setting_is_named(cli: Cli) -> None:
    told = (await cli("config", AGENTOS_PORT="many", code=11)).err
    assert "AGENTOS_PORT" in told
    told = (await cli("config", AGENTOS_SECRET_KEY="hush-hush", code=11)).err
    assert "hush-hush" not in told
    assert "openssl rand -hex 32" in told
