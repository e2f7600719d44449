"""Rules that hold for every route, so that a new one cannot forget them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from agentos.gateway.app import ROUTERS, create_api

ROUTES = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]


def dependencies(dependant: Dependant) -> Iterator[Dependant]:
    for inner in dependant.dependencies:
        yield inner
        yield from dependencies(inner)


def test_nothing_runs_in_a_thread() -> None:
    # A plain function would go through the thread pool, at half the throughput.
    for route in ROUTES:
        assert inspect.iscoroutinefunction(route.endpoint), route.path
        for inner in dependencies(route.dependant):
            assert inspect.iscoroutinefunction(inner.call), (route.path, inner.call)


def test_every_list_documents_its_paging() -> None:
    paths = create_api().openapi()["paths"]
    paged = [route for route in ROUTES if "page_of" in route.endpoint.__code__.co_names]
    assert len(paged) >= 9
    for route in paged:
        named = [item["name"] for item in paths[route.path]["get"]["parameters"]]
        assert {"limit", "cursor"} <= set(named), route.path
        assert len(named) == len(set(named)), route.path


def test_every_route_names_its_whole_path() -> None:
    # The app takes routes from their routers as they are.
    for route in ROUTES:
        assert route.path.startswith(("/api/", "/health/", "/metrics")), route.path
