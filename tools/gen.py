"""Writes generated files; with --check, fails if one is not what it should be."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

from agentos import web_build
from agentos.gateway.app import create_api
from dashboard import npm

ROOT = Path(__file__).resolve().parent.parent
WEB = ROOT / "web"
TYPES = Path("src", "api", "schema.d.ts")


def generated() -> dict[Path, str]:
    document = json.dumps(create_api().openapi(), indent=2, ensure_ascii=False) + "\n"
    files = {ROOT / "openapi.json": document}
    if not web_build.is_skipped():
        files[WEB / TYPES] = types_of(document)
    return files


def types_of(document: str) -> str:
    """What `npm run gen` makes of this document, made beside the tree and not in it."""
    with tempfile.TemporaryDirectory() as folder:
        web = Path(folder, "web")
        (web / TYPES).parent.mkdir(parents=True)
        (web / "node_modules").symlink_to(WEB / "node_modules")
        shutil.copy(WEB / "package.json", web)
        Path(folder, "openapi.json").write_text(document)
        npm("run", "gen", web=web)
        return (web / TYPES).read_text()


def main() -> int:
    try:
        files = generated()
    except web_build.BuildFailed as error:
        print(error, file=sys.stderr)
        return 1
    stale = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    if "--check" not in sys.argv:
        for path in stale:
            path.write_text(files[path])
        return 0
    for path in stale:
        print(f"{path.relative_to(ROOT)} is not up to date; run `make gen` and commit it.")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
