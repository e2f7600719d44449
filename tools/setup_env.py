"""Creates .venv and installs AgentOS in it from the pinned requirements. Standard library only.

Usage: python3 tools/setup_env.py runtime|dev
Does nothing when the environment is already as the requirements say.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"


def main() -> int:
    flavour = sys.argv[1]
    if sys.version_info < (3, 11):  # noqa: UP036 - run by whatever python3 the machine has
        return fail(f"AgentOS needs Python 3.11 or newer; this is {sys.version.split()[0]}.")
    requirements = ROOT / "requirements" / f"{flavour}.txt"
    stamp = VENV / f".installed-{flavour}"
    wanted = fingerprint(requirements)
    # The development set contains the runtime set.
    stamps = [VENV / ".installed-dev", stamp]
    if PYTHON.exists() and any(
        s.exists() and s.read_text() == fingerprint(ROOT / "requirements" / f"{s.name[11:]}.txt")
        for s in stamps
    ):
        return 0
    return create() or install(requirements) or link() or mark(stamp, wanted)


def fingerprint(requirements: Path) -> str:
    parts = (
        requirements.read_bytes(),
        (ROOT / "pyproject.toml").read_bytes(),
        sys.version.encode(),
    )
    return hashlib.sha256(b"".join(parts)).hexdigest()


def create() -> int:
    if PYTHON.exists():
        return 0
    say("Creating the environment in .venv")
    done = subprocess.run(
        [sys.executable, "-m", "venv", str(VENV)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        return fail(f"{done.stdout}{done.stderr}\nOn Debian: apt-get install python3-venv")
    return 0


def install(requirements: Path) -> int:
    total = sum(
        1 for line in requirements.read_text().splitlines() if "==" in line and line[0] != " "
    )
    say(f"Installing {total} packages")
    command = [str(PYTHON), "-m", "pip", "install", "--require-hashes", "--no-input"]
    command += ["--disable-pip-version-check", "--progress-bar", "off", "-r", str(requirements)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    lines: list[str] = []
    count = 0
    for line in process.stdout:
        lines.append(line)
        if line.startswith(("Collecting ", "Processing ", "Requirement already satisfied: ")):
            count += 1
            if count % 10 == 0 or sys.stdout.isatty():
                show(f"  {min(count, total)} of {total}")
        elif line.startswith("Installing collected"):
            show("  unpacking …\n")
    if process.wait():
        return fail("".join(lines[-25:]) + "\nThe packages could not be installed; see above.")
    return 0


def link() -> int:
    say("Installing AgentOS itself")
    command = [str(PYTHON), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    command += ["--no-deps", "--no-build-isolation", "-e", str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return fail(done.stdout + done.stderr) if done.returncode else 0


def mark(stamp: Path, text: str) -> int:
    stamp.write_text(text)
    return 0


def say(text: str) -> None:
    print(text, flush=True)


def show(text: str) -> None:
    if sys.stdout.isatty():
        print(f"\r\033[K{text}", end="", flush=True)
    else:
        print(text.rstrip(), flush=True)


def fail(text: str) -> int:
    print(text.rstrip(), file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
