from __future__ import annotations

from collections.abc import Sequence


def percentile(values: Sequence[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


def p50_and_p99(seconds: Sequence[float]) -> str:
    return f"p50 {percentile(seconds, 0.5) * 1000:.2f} ms, p99 {percentile(seconds, 0.99) * 1000:.2f} ms"
