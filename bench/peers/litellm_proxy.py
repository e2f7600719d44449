"""Peer: LiteLLM's proxy, in an environment of its own that is kept for the next run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.peers.model_upstream import MODEL, PACED_MODEL
from bench.pinned import SERVER_CORE, pinned
from bench.stack import free_port

MASTER_KEY = "sk-bench"
# It imports for half a minute, longer while others use the core.
BOOT_SECONDS = 180


def _environment() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "agentos-bench" / "litellm"


def installed() -> str | None:
    """Its version, installed if that is possible; None if not."""
    place = _environment()
    if found := _version(place):
        return found
    place.parent.mkdir(parents=True, exist_ok=True)
    for command in (
        [sys.executable, "-m", "venv", "--clear", str(place)],
        [str(place / "bin" / "pip"), "install", "--quiet", "litellm[proxy]"],
    ):
        if subprocess.run(command, check=False, capture_output=True).returncode:
            return None
    return _version(place)


def _version(place: Path) -> str | None:
    if not (place / "bin" / "litellm").exists():
        return None
    ask = "import importlib.metadata as m; print(m.version('litellm'))"
    command = [str(place / "bin" / "python"), "-c", ask]
    answer = subprocess.run(command, check=False, capture_output=True, text=True)
    return answer.stdout.strip() if answer.returncode == 0 else None


@contextmanager
def litellm(upstream: int, place: Path) -> Iterator[tuple[int, int]]:
    """Its process id and its port. One worker, a master key, no database, no telemetry."""
    port = free_port()
    config = place / "litellm.json"
    config.write_text(_config(upstream))
    argv = [
        str(_environment() / "bin" / "litellm"),
        *("--config", str(config), "--host", "127.0.0.1", "--port", str(port)),
        *("--num_workers", "1", "--telemetry", "False"),
    ]
    with pinned(
        argv,
        core=SERVER_CORE,
        port=port,
        log=place / "litellm.log",
        env=_variables(),
        patience=BOOT_SECONDS,
    ) as pid:
        yield pid, port


def _config(upstream: int) -> str:
    """YAML, of which JSON is a part."""
    models = [
        {
            "model_name": model,
            "litellm_params": {
                "model": f"openai/{model}",
                "api_base": f"http://127.0.0.1:{upstream}/v1",
                "api_key": "bench",
            },
        }
        for model in (MODEL, PACED_MODEL)
    ]
    return json.dumps({"model_list": models, "general_settings": {"master_key": MASTER_KEY}})


def _variables() -> dict[str, str]:
    return {
        **os.environ,
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_LOG": "ERROR",
        "LITELLM_MODE": "PRODUCTION",
        "NO_PROXY": "127.0.0.1",
    }
