"""What deploy/ says is what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from agentos.integrations.agents.packages import AGENTS, packages
from agentos.kernel.settings import Settings

DEPLOY = Path(__file__).parents[3] / "deploy"


def test_the_image_has_the_pinned_agents() -> None:
    text = (DEPLOY / "agent.Dockerfile").read_text()
    said = dict(re.findall(r"^ARG (\w+)=(\S+)$", text, re.MULTILINE))
    for machine, suffix in (("x86_64", "_AMD64"), ("aarch64", "_ARM64")):
        for name, package in packages(AGENTS, machine).items():
            argument = name.replace("-", "_").upper()
            assert said.get(argument, said.get(argument + suffix)) == package.version
            assert package.npm_name.rpartition("-")[0] in text


def test_every_setting_exists() -> None:
    known = {str(field.validation_alias) for field in Settings.model_fields.values()}
    for service in ("gateway", "worker"):
        compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
        for name in compose["services"][service]["environment"]:
            assert any(name in alias for alias in known), name


def test_the_readme_names_each_file() -> None:
    text = (DEPLOY / "README.md").read_text()
    for path in DEPLOY.iterdir():
        assert path.name == "README.md" or f"`{path.name}`" in text
