"""Writes generated files; with --check, fails if one is not what it should be."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from agentos.gateway.app import create_api

ROOT = Path(__file__).resolve().parent.parent


def generated() -> dict[Path, str]:
    document = json.dumps(create_api().openapi(), indent=2, ensure_ascii=False)
    return {ROOT / "openapi.json": document + "\n"}


def main() -> int:
    stale = [
        path for path, text in generated().items() if not path.exists() or path.read_text() != text
    ]
    if "--check" not in sys.argv:
        for path, text in generated().items():
            path.write_text(text)
        return 0
    for path in stale:
        print(f"{path.name} is not up to date; run `make gen` and commit it.")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
