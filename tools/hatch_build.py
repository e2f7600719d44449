"""Puts the dashboard into what is built of the package: see docs/adr/0020-dashboard-shipping.md."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


def web_build(root: str) -> ModuleType:
    """By its path: nothing of ours is installed yet."""
    spec = importlib.util.spec_from_file_location(
        "agentos_web_build", Path(root, "src", "agentos", "web_build.py")
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Its dataclasses look for their module there.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class DashboardHook(BuildHookInterface[Any]):
    def dependencies(self) -> list[str]:
        """A Node, where one is needed and this machine has none."""
        building = web_build(self.root)
        if building.is_skipped() or not building.is_stale(self._root, self._ui):
            return []
        try:
            building.find_node()
        except building.NodeMissing:
            return [building.NODE_PACKAGE]
        return []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - the interface's
        # A linked checkout builds it when it is started: `make up`.
        if version == "editable":
            return
        building = web_build(self.root)
        try:
            building.build(self._root, self.app.display_info)
        except building.BuildFailed as error:
            sys.exit(f"{error}\nTo leave the dashboard out, set {building.SKIP}=1.")

    @property
    def _root(self) -> Path:
        return Path(self.root)

    @property
    def _ui(self) -> Path:
        return self._root / "src" / "agentos" / "_ui"
