"""Which files a part of AgentOS needs to run on its own, read from the sources without running them."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from agentos.integrations.runtimes.base import RuntimeMissing

# The name of a requirement, and whether it is asked for by everybody or with an extra only.
_REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_EXTRA = re.compile(r";.*\bextra\b")


def needed_files(package: str) -> dict[str, Path]:
    """By the path to give it, each file that `package` ("agentos.sidecar") needs: itself, what it
    imports of its own top package, and the distributions of all else."""
    top = package.partition(".")[0]
    modules, foreign = _followed(package, _root_of(top))
    files = {str(path.relative_to(_root_of(top).parent)): path for path in modules}
    for name in sorted(_distributions(foreign)):
        files |= _files_of(metadata.distribution(name))
    return files


def _root_of(top: str) -> Path:
    spec = importlib.util.find_spec(top)
    if spec is None or spec.origin is None:
        raise RuntimeMissing(f"The sources of {top} cannot be found.")
    return Path(spec.origin).parent


def _followed(package: str, root: Path) -> tuple[set[Path], set[str]]:
    """The files of our own, and the names of the top packages that are not."""
    place = root.parent.joinpath(*package.split("."))
    waiting = sorted(place.rglob("*.py"))
    if not waiting:
        raise RuntimeMissing(f"The sources of {package} cannot be found.")
    found: set[Path] = set()
    foreign: set[str] = set()
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found.add(path)
        # Whoever imports a module imports the packages around it.
        waiting += [p / "__init__.py" for p in path.parents if p == root or root in p.parents]
        # What others import only when somebody calls them is nothing that the package calls.
        for name in _imports(path, root, in_functions=place in path.parents):
            if name.partition(".")[0] == root.name:
                waiting += _module(name, root)
            else:
                foreign.add(name.partition(".")[0])
    return {path for path in found if path.exists()}, foreign - sys.stdlib_module_names


def _imports(path: Path, root: Path, *, in_functions: bool) -> Iterator[str]:
    if not path.exists():
        return
    package = path.parent.relative_to(root.parent).parts
    for node in _nodes(ast.parse(path.read_bytes(), str(path)), in_functions=in_functions):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            around = package[: len(package) + 1 - node.level] if node.level else ()
            base = ".".join([*around, *([node.module] if node.module else [])])
            yield base
            # What is imported from a package may be a module.
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _nodes(tree: ast.AST, *, in_functions: bool) -> Iterator[ast.AST]:
    """All but what only type checkers read."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += node.orelse
        elif in_functions or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            waiting += ast.iter_child_nodes(node)


def _module(name: str, root: Path) -> list[Path]:
    place = root.parent.joinpath(*name.split("."))
    return [p for p in (place.with_suffix(".py"), place / "__init__.py") if p.exists()]


def _distributions(names: set[str]) -> set[str]:
    """The distributions that have these packages, and those that they need in turn."""
    owners = metadata.packages_distributions()
    waiting = [owners[name][0] for name in names if name in owners]
    found: dict[str, str] = {}
    while waiting:
        name = waiting.pop()
        plain = re.sub(r"[-_.]+", "-", name).lower()
        if plain in found:
            continue
        found[plain] = name
        for requirement in metadata.requires(name) or []:
            named = _REQUIREMENT.match(requirement)
            if named and not _EXTRA.search(requirement) and _is_installed(named[0]):
                waiting.append(named[0])
    return set(found.values())


def _is_installed(name: str) -> bool:
    """A requirement may be for another system or another Python."""
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _files_of(distribution: metadata.Distribution) -> dict[str, Path]:
    """What lies beside other packages: not its programs, nor what was compiled for this place."""
    return {
        str(file): Path(str(file.locate()))
        for file in distribution.files or []
        if ".." not in file.parts and "__pycache__" not in file.parts and file.suffix != ".pth"
    }
