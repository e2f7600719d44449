"""What the images are made of: deploy/*.Dockerfile and what is sent to their builds."""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentos import web_build
from agentos.integrations.agents.packages import AGENTS, packages
from agentos.kernel.settings import Settings

ROOT = Path(__file__).resolve().parent.parent
DEPLOY = ROOT / "deploy"
# Each with the directory that is sent to its build.
CONTEXTS = {"agentos.Dockerfile": ROOT, "agent.Dockerfile": DEPLOY}
DOCKERFILES = sorted(CONTEXTS)
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


@dataclass(frozen=True)
class Instruction:
    name: str
    text: str
    stage: int

    @property
    def words(self) -> list[str]:
        return [word for word in shlex.split(self.text) if not word.startswith("--")]

    def flag(self, name: str) -> str | None:
        found = re.search(rf"(?:^|\s)--{name}=(\S+)", self.text)
        return found and found[1]


def dockerfile(name: str) -> list[Instruction]:
    """Its instructions, lines joined and comments gone."""
    lines = [line for line in (DEPLOY / name).read_text().splitlines() if line[:1] != "#"]
    found: list[Instruction] = []
    stage = -1
    for line in re.sub(r"\\\n\s*", " ", "\n".join(lines)).splitlines():
        if line.strip():
            verb, _, text = line.partition(" ")
            stage += verb == "FROM"
            found.append(Instruction(verb, text.strip(), stage))
    return found


def last_stage(name: str) -> list[Instruction]:
    found = dockerfile(name)
    return [each for each in found if each.stage == found[-1].stage]


def is_sent(path: str, context: Path) -> bool:
    """Whether the last rule of .dockerignore that speaks of the path, or of what it is in, lets it in."""
    sent = True
    for line in (context / ".dockerignore").read_text().splitlines():
        rule = line.strip()
        if rule and not rule.startswith("#") and _speaks_of(rule.lstrip("!"), path):
            sent = rule.startswith("!")
    return sent


def _speaks_of(pattern: str, path: str) -> bool:
    parts = path.split("/")
    return any(_matches(pattern.split("/"), parts[:n]) for n in range(1, len(parts) + 1))


def _matches(pattern: list[str], parts: list[str]) -> bool:
    if not pattern or not parts:
        return pattern == parts
    if pattern[0] == "**":
        return any(_matches(pattern[1:], parts[n:]) for n in range(len(parts)))
    return fnmatch.fnmatchcase(parts[0], pattern[0]) and _matches(pattern[1:], parts[1:])


@pytest.mark.parametrize("name", DOCKERFILES)
def test_what_is_copied_is_there_and_is_sent(name: str) -> None:
    stages: set[str] = set()
    for each in dockerfile(name):
        if each.name == "FROM":
            stages |= {each.words[2]} if len(each.words) > 1 else set()
        if each.name != "COPY":
            continue
        if (stage := each.flag("from")) is not None:
            assert stage in stages
            continue
        for source in each.words[:-1]:
            assert (CONTEXTS[name] / source).exists(), source
            assert is_sent(source, CONTEXTS[name]), source


def test_all_sources_are_sent_and_nothing_that_was_made_of_them() -> None:
    sources = [*web_build.sources(ROOT / "web"), *(ROOT / "src").rglob("*.py")]
    assert len(sources) > 100
    for path in sources:
        assert is_sent(path.relative_to(ROOT).as_posix(), ROOT), path
    for made in (
        "src/agentos/_ui/index.html",
        "web/node_modules/x.js",
        "src/agentos/__pycache__/x",
    ):
        assert not is_sent(made, ROOT), made


@pytest.mark.parametrize(
    ("path", "context"),
    [
        ("deploy/.env", ROOT),
        ("deploy/nats.conf", ROOT),
        ("agentos.env", ROOT),
        (".git/config", ROOT),
        (".env", DEPLOY),
        ("nats.conf", DEPLOY),
    ],
)
def test_secrets_are_not_sent(path: str, context: Path) -> None:
    assert not is_sent(path, context)


@pytest.mark.parametrize("name", DOCKERFILES)
def test_images_run_as_nobody_special_and_keep_no_cache(name: str) -> None:
    users = [each.text for each in last_stage(name) if each.name == "USER"]
    assert users
    assert users[-1] not in ("root", "0")
    made = [each.text for each in last_stage(name) if each.name == "RUN" and "useradd" in each.text]
    assert any(text.split("&&")[0].split()[-1] == users[-1] for text in made)
    for each in dockerfile(name):
        if each.name == "RUN":
            assert ("apt-get install" in each.text) == ("rm -rf /var/lib/apt/lists/*" in each.text)
            assert each.text.count("pip install") <= each.text.count("--no-cache-dir")


@pytest.mark.parametrize("name", DOCKERFILES)
def test_images_have_the_python_that_the_sidecar_is_bundled_for(name: str) -> None:
    bases = [each.words[0] for each in dockerfile(name) if each.name == "FROM"]
    # Debian 12, whose Python is 3.11: the worker's and the team's must be one.
    assert all("bookworm" in base.partition(":")[2] for base in bases), bases
    installs = [each.text for each in last_stage(name) if "apt-get install" in each.text]
    assert any("python3" in text.split() for text in installs)


def test_what_the_image_sets_is_a_setting() -> None:
    known = {
        str(name)
        for field in Settings.model_fields.values()
        for name in getattr(field.validation_alias, "choices", [])
    }
    named = [
        word.partition("=")[0]
        for each in last_stage("agentos.Dockerfile")
        if each.name == "ENV"
        for word in each.words
        if word.startswith("AGENTOS_")
    ]
    assert named
    assert set(named) <= known


@pytest.mark.parametrize("architecture", sorted(_MACHINES))
def test_the_agent_clis_are_those_that_are_pinned(architecture: str, tmp_path: Path) -> None:
    """Runs the build's own commands, with an npm that only notes what it is asked for."""
    wanted = packages(AGENTS, _MACHINES[architecture])
    built = dockerfile("agent.Dockerfile")
    done = _run_build(
        built, architecture, [p.program_in(Path()) for p in wanted.values()], tmp_path
    )
    assert done.returncode == 0, done.stderr
    asked = (tmp_path / "npm.txt").read_text().split()
    assert asked[0] == "install"
    assert "--ignore-scripts" in asked
    specs = {word for word in asked[1:] if not word.startswith("--")}
    assert specs == {package.npm_spec for package in wanted.values()}
    assert len(done.stdout.splitlines()) == len(wanted), "each is tried"


def test_a_build_without_one_of_them_fails(tmp_path: Path) -> None:
    wanted = packages(AGENTS, "x86_64")
    there = [p.program_in(Path()) for n, p in wanted.items() if n != "ripgrep"]
    built = dockerfile("agent.Dockerfile")
    assert _run_build(built, "amd64", there, tmp_path).returncode != 0


def test_a_build_for_another_kind_of_machine_says_so(tmp_path: Path) -> None:
    done = _run_build(dockerfile("agent.Dockerfile"), "riscv64", [], tmp_path)
    assert done.returncode != 0
    assert "riscv64" in done.stderr


def _run_build(
    built: list[Instruction], architecture: str, brings: list[Path], place: Path
) -> subprocess.CompletedProcess[str]:
    """The first stage's commands in `place`, where npm brings these programs."""
    programs = place / "bin"
    programs.mkdir()
    made = "\n".join(
        f"mkdir -p {path.parent}; printf '#!/bin/sh\\necho 1\\n' > {path}" for path in brings
    )
    _script(programs / "npm", f'echo "$@" > {place}/npm.txt\n{made}')
    _script(programs / "dpkg", f"echo {architecture}")
    arguments = dict(each.text.split("=") for each in built if each.name == "ARG")
    runs = [each.text for each in built if each.name == "RUN" and each.stage == 0]
    return subprocess.run(
        ["sh", "-ec", "\n".join(runs)],
        cwd=place,
        env={**arguments, "PATH": f"{programs}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )


def _script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
