"""What Prometheus scrapes. No label names a tenant: series must not grow with customers."""

from __future__ import annotations

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

CONTENT_TYPE = CONTENT_TYPE_LATEST

_NAMESPACE = "agentos"
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "WEBSOCKET"})
_MOST_ROUTES = 2_000  # a path used as a route by mistake must not grow the series without end

# Each counter would otherwise get a twin that tells when it was made: twice the lines to scrape.
disable_created_metrics()  # type: ignore[no-untyped-call]

registry = CollectorRegistry()
ProcessCollector(namespace=_NAMESPACE, registry=registry)

http_requests = Counter(
    "http_requests_total",
    "Requests answered.",
    ("method", "route", "status"),
    namespace=_NAMESPACE,
    registry=registry,
)
http_request_seconds = Histogram(
    "http_request_seconds",
    "Time to answer a request.",
    ("method", "route"),
    namespace=_NAMESPACE,
    registry=registry,
    buckets=_BUCKETS,
)
model_calls = Counter(
    "model_calls_total",
    "Model calls that ended, by kind of provider.",
    ("kind", "outcome"),
    namespace=_NAMESPACE,
    registry=registry,
)
model_attempts_failed = Counter(
    "model_attempts_failed_total",
    "Attempts at a provider that failed before anything was delivered.",
    ("kind", "error_class"),
    namespace=_NAMESPACE,
    registry=registry,
)
events_relayed = Counter(
    "events_relayed_total",
    "Events moved from the outbox to the bus.",
    namespace=_NAMESPACE,
    registry=registry,
)
outbox_oldest_seconds = Gauge(
    "outbox_oldest_seconds",
    "Age of the oldest event that still waits in the outbox.",
    namespace=_NAMESPACE,
    registry=registry,
)
event_sockets = Gauge(
    "event_sockets",
    "Open event sockets.",
    namespace=_NAMESPACE,
    registry=registry,
)
event_sockets_dropped = Counter(
    "event_sockets_dropped_total",
    "Event sockets closed by us.",
    ("reason",),
    namespace=_NAMESPACE,
    registry=registry,
)
rate_limited = Counter(
    "rate_limited_total",
    "Requests refused because of a rate limit.",
    namespace=_NAMESPACE,
    registry=registry,
)
database_pool_connections = Gauge(
    "database_pool_connections",
    "Connections to the database, by state.",
    ("state",),
    namespace=_NAMESPACE,
    registry=registry,
)
engine_restarts = Counter(
    "engine_restarts_total",
    "Times an embedded engine was started again.",
    ("engine",),
    namespace=_NAMESPACE,
    registry=registry,
)

# Looking labels up takes a lock and most of the time of an observation.
_bound: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
_routes: set[str] = set()


_bound_calls: dict[tuple[str, str], Counter] = {}


def observe_request(method: str, route: str, status: int, seconds: float) -> None:
    """Counts one answered request. `route` is the template (`/v1/teams/{id}`), not the path."""
    bound = _bound.get((method, route, status))
    if bound is None:
        bound = _bind(method, route, status)
    requests, durations = bound
    requests.inc()
    durations.observe(seconds)


def observe_model_call(kind: str, outcome: str) -> None:
    """Counts one model call that has ended. Both come from short lists."""
    bound = _bound_calls.get((kind, outcome))
    if bound is None:
        bound = _bound_calls[kind, outcome] = model_calls.labels(kind, outcome)
    bound.inc()


def render() -> bytes:
    """All metrics in Prometheus's text format, to be served as `CONTENT_TYPE`."""
    return generate_latest(registry)


def _bind(method: str, route: str, status: int) -> tuple[Counter, Histogram]:
    known = method in _METHODS and (route in _routes or len(_routes) < _MOST_ROUTES)
    if not known:
        # Not kept: callers can make up methods, and the cache must not grow with them.
        method = method if method in _METHODS else "other"
        route = route if route in _routes else "other"
    bound = (
        http_requests.labels(method, route, str(status)),
        http_request_seconds.labels(method, route),
    )
    if known:
        _routes.add(route)
        _bound[method, route, status] = bound
    return bound
