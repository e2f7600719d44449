from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from agentos.kernel import metrics
from agentos.kernel.metrics import observe_request, registry, render


def value(name: str, **labels: str) -> float | None:
    return registry.get_sample_value(name, labels)


def test_every_series_is_ours_and_none_names_a_tenant() -> None:
    observe_request("GET", "/v1/things/{id}", 200, 0.02)
    metrics.event_sockets_dropped.labels("slow").inc()
    metrics.database_pool_connections.labels("idle").set(3)
    metrics.engine_restarts.labels("postgres").inc()
    samples = [
        sample
        for family in text_string_to_metric_families(render().decode())
        for sample in family.samples
    ]
    assert {sample.name.startswith("agentos_") for sample in samples} == {True}
    assert not any(sample.name.endswith("_created") for sample in samples)
    # Of these, and of those that other parts in this process have counted.
    labels = {label for sample in samples for label in sample.labels}
    assert labels >= {"method", "route", "status", "le", "reason", "state", "engine"}
    assert labels <= {"method", "route", "status", "le", "reason", "state", "engine"} | {
        "kind", "outcome", "error_class",
    }  # fmt: skip
    assert {
        "agentos_http_requests_total",
        "agentos_http_request_seconds_bucket",
        "agentos_events_relayed_total",
        "agentos_outbox_oldest_seconds",
        "agentos_event_sockets",
        "agentos_event_sockets_dropped_total",
        "agentos_rate_limited_total",
        "agentos_database_pool_connections",
        "agentos_engine_restarts_total",
    } <= {sample.name for sample in samples}
    assert metrics.CONTENT_TYPE.startswith("text/plain")


def test_requests_are_counted_and_timed() -> None:
    for status in (200, 200, 404):
        observe_request("GET", "/counted", status, 0.02)
    name = "agentos_http_requests_total"
    assert value(name, method="GET", route="/counted", status="200") == 2
    assert value(name, method="GET", route="/counted", status="404") == 1
    seconds = "agentos_http_request_seconds"
    assert value(f"{seconds}_count", method="GET", route="/counted") == 3
    assert value(f"{seconds}_bucket", method="GET", route="/counted", le="0.01") == 0
    assert value(f"{seconds}_bucket", method="GET", route="/counted", le="0.025") == 3


def test_callers_cannot_grow_the_series(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_routes", set())
    monkeypatch.setattr(metrics, "_bound", {})
    monkeypatch.setattr(metrics, "_MOST_ROUTES", 2)
    for number in range(5):
        observe_request("GET", f"/many/{number}", 200, 0.001)
        observe_request(f"BREW{number}", "/many/0", 200, 0.001)
    rendered = render().decode()
    assert "/many/1" in rendered
    assert "/many/2" not in rendered
    assert "BREW" not in rendered
    name = "agentos_http_requests_total"
    assert value(name, method="GET", route="other", status="200") == 3
    assert value(name, method="other", route="/many/0", status="200") == 5
    assert len(metrics._bound) == 2
