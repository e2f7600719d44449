"""How a benchmark is declared, and how its figures are printed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Benchmark:
    name: str
    about: str
    run: Callable[[], None]


def ratio(name: str, value: float, aim: str) -> None:
    print(f"ratio {name} {value:.2f} aim {aim}", flush=True)


def figure(name: str, text: str) -> None:
    """A number that explains a ratio."""
    print(f"  {name}: {text}", flush=True)
