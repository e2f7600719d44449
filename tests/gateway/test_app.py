"""Rules that hold for every route, so that a new one cannot forget them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from uuid import UUID

from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.routing import Match
from starlette.types import Scope

from agentos.gateway.app import ROUTERS, Routes, create_api

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


def test_every_route_is_found_as_the_framework_finds_it() -> None:
    app = create_api()
    routes = Routes(app)
    for route in ROUTES:
        for method in route.methods or ():
            path = re.sub(r"\{[^}]+\}", str(UUID(int=7)), route.path)
            scope: Scope = {
                "type": "http",
                "method": method,
                "path": path,
                "root_path": "",
                "headers": [],
            }
            by_framework = next(r for r in app.routes if r.matches(scope)[0] is Match.FULL)
            found = routes._find(scope)
            assert found is by_framework, (method, path)
            assert found is not None
            assert set(scope["path_params"]) == set(route.param_convertors)
    for method, path in (("GET", "/api/nothing/x"), ("DELETE", "/api/events"), ("GET", "/api")):
        assert routes._find({"type": "http", "method": method, "path": path}) is None
