"""Assembles the gateway from its parts."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Match
from starlette.types import ASGIApp, Receive, Scope, Send

from agentos import __version__
from agentos.control.api_keys.endpoints import router as api_keys
from agentos.control.auth.demo import DemoEntrance
from agentos.control.auth.endpoints import router as auth
from agentos.control.auth.service import Auth
from agentos.control.members.endpoints import invitations
from agentos.control.members.endpoints import router as members
from agentos.control.platform.demo import Demo
from agentos.control.platform.endpoints import router as platform
from agentos.control.service_tokens.endpoints import router as service_tokens
from agentos.control.tenants.endpoints import plan_router
from agentos.control.tenants.endpoints import router as tenants
from agentos.control.usage.endpoints import router as usage
from agentos.execution.crews.endpoints import router as teams
from agentos.execution.crews.endpoints import team_templates
from agentos.execution.crews.front import CrewFront, CrewHints
from agentos.execution.crews.messages.endpoints import router as messages
from agentos.execution.crews.native_crew import NativeCrew
from agentos.execution.post_actions.endpoints import router as post_actions
from agentos.execution.pulse.approvals.endpoints import router as approvals
from agentos.execution.pulse.chains.endpoints import router as chains
from agentos.execution.pulse.endpoints import router as sessions
from agentos.execution.pulse.front import Hints, PulseFront
from agentos.execution.pulse.history.endpoints import checkpoints
from agentos.execution.pulse.history.endpoints import router as history
from agentos.execution.pulse.payloads import Payloads
from agentos.execution.runs.endpoints import router as runs
from agentos.execution.schedules.endpoints import router as schedules
from agentos.execution.webhooks.endpoints import router as webhooks
from agentos.gateway import health
from agentos.gateway.admission import Admission, AdmissionSettings
from agentos.gateway.ai.models import ModelLists
from agentos.gateway.ai.proxy import PREFIX as AI_PREFIX
from agentos.gateway.ai.proxy import AiProxy
from agentos.gateway.authentication import Authenticator
from agentos.gateway.chat import router as chat
from agentos.gateway.credential_watch import CredentialWatch
from agentos.gateway.edge import Edge, EdgeSettings
from agentos.gateway.events.endpoints import Streams
from agentos.gateway.events.endpoints import mount as mount_events
from agentos.gateway.events.endpoints import router as events
from agentos.gateway.events.hub import EventHub
from agentos.gateway.hooks import router as hooks
from agentos.gateway.idempotency import Idempotency
from agentos.gateway.live import Watchers
from agentos.gateway.live import router as live
from agentos.gateway.openapi import describe
from agentos.gateway.parts import Parts
from agentos.gateway.ui import Ui, load_ui
from agentos.integrations.models.endpoints import router as models_router
from agentos.integrations.models.parts import ModelParts
from agentos.integrations.objects.endpoints import router as objects
from agentos.integrations.tools.policies.endpoints import router as tools
from agentos.integrations.workspaces.workspaces import Workspaces
from agentos.kernel.settings import Settings
from agentos.tenancy.audit.endpoints import router as audit
from agentos.tenancy.budgets.endpoints import router as budgets
from agentos.tenancy.rate_limits import RateLimiter
from agentos.tenancy.tokens import Tokens
from agentos.tenancy.vault.endpoints import router as vault
from agentos.tenancy.vault.service import Vault

ROUTERS = (
    auth,
    tenants,
    plan_router,
    members,
    invitations,
    api_keys,
    service_tokens,
    vault,
    audit,
    objects,
    events,
    models_router,
    usage,
    budgets,
    sessions,
    live,
    history,
    checkpoints,
    approvals,
    chains,
    tools,
    teams,
    team_templates,
    messages,
    chat,
    schedules,
    webhooks,
    hooks,
    runs,
    post_actions,
    platform,
    health.router,
)


def create_api() -> FastAPI:
    """The routes alone: enough to describe the API, not to serve it."""
    app = FastAPI(
        title="AgentOS",
        version=__version__,
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        # A redirect would be built from the Host header, which is the caller's to choose.
        redirect_slashes=False,
    )
    for router in ROUTERS:
        # Not include_router: our routers name their whole path, and a flat list of routes is
        # matched faster than a tree of routers.
        app.router.routes.extend(router.routes)
    describe(app)
    return app


class Routes:
    """The routes of an app without the framework's middleware: the edge answers errors itself."""

    def __init__(self, app: FastAPI):
        self._app = app
        # By what is known of a path without trying one pattern after the other: whole, or by its
        # first words and how many there are.
        self._plain: dict[tuple[str, str], APIRoute] = {}
        self._patterns: dict[tuple[str, str, int], list[APIRoute]] = {}
        for route in app.routes:
            if isinstance(route, APIRoute):
                for method in route.methods or ():
                    if not route.param_convertors:
                        self._plain[method, route.path] = route
                    else:
                        self._patterns.setdefault(_words(method, route.path), []).append(route)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = self._app
        async with AsyncExitStack() as stack:
            # FastAPI closes uploaded files through it, and expects it to be there.
            scope["fastapi_middleware_astack"] = stack
            route = self._find(scope)
            if route is None:
                await self._app.router(scope, receive, send)
            else:
                await route.handle(scope, receive, send)

    def _find(self, scope: Scope) -> APIRoute | None:
        """The route of a request, with what its path says filled in. None: the framework knows."""
        method, path = scope["method"], scope["path"]
        if (route := self._plain.get((method, path))) is not None:
            scope.update(route=route, endpoint=route.endpoint, path_params={})
            return route
        for route in self._patterns.get(_words(method, path), ()):
            match, found = route.matches(scope)
            if match is Match.FULL:
                scope.update(found)
                return route
        return None


def _words(method: str, path: str) -> tuple[str, str, int]:
    """What a route with parameters is found by: "/api/teams/{id}/chat" by "teams" and 4."""
    _, _, area, *_ = (*path.split("/", 3), "", "")
    return method, area, path.count("/")


@dataclass(frozen=True)
class Requests:
    """Model calls go ahead of the edge: they stream, and hold no transaction while they do. So do
    the dashboard's files, which are for everybody.
    """

    edge: ASGIApp
    proxy: ASGIApp
    ui: Ui

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if path.startswith(AI_PREFIX):
            await self.proxy(scope, receive, send)
        elif not _is_servers(path) and (file := self.ui.find(scope)) is not None:
            await file.answer(scope, send)
        else:
            await self.edge(scope, receive, send)


def _is_servers(path: str) -> bool:
    """Whether a path is never the dashboard's."""
    return path.startswith(("/api/", "/health/")) or path in ("/api", "/health", "/metrics")


@dataclass(frozen=True)
class Gateway:
    """The whole gateway as one ASGI application: requests through the edge, sockets beside it."""

    requests: ASGIApp
    streams: Streams
    watch: CredentialWatch
    watchers: Watchers = field(default_factory=Watchers)
    models: ModelParts | None = None
    # Whether somebody else in this process keeps the models running.
    models_shared: bool = False
    # Where users see us: a proxy may have taken it off a request's path, or left it.
    base_path: str = ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.base_path:
            scope = _below(self.base_path, scope)
        if scope["type"] != "websocket":
            await self.requests(scope, receive, send)
        elif scope["path"] == "/api/events":
            await self.streams.socket(scope, receive, send)
        else:
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": "no such socket"})

    def background(self) -> AbstractAsyncContextManager[None]:
        """What works behind the requests for as long as they are served."""
        if self.models is None or self.models_shared:
            return nullcontext()
        return self.models.running()

    async def close(self) -> None:
        """Ends what would otherwise go on for ever, before the server waits for it."""
        await self.streams.close()
        self.watchers.close()
        await self.watch.close()


def _below(base_path: str, scope: Scope) -> Scope:
    """The request with its path as we know it."""
    path, raw = scope["path"], scope.get("raw_path") or b""
    if path != base_path and not path.startswith(f"{base_path}/"):
        return scope
    return {
        **scope,
        "path": path.removeprefix(base_path) or "/",
        "raw_path": raw.removeprefix(base_path.encode()) or b"/",
    }


def create_gateway(
    parts: Parts, shared: ModelParts | None = None, *, demo: Demo | None = None
) -> Gateway:
    """`shared` are models that are running already, in the worker of the same process. `demo` can
    be signed in to without a password, by a browser on this machine.
    """
    settings = parts.settings
    app = create_api()
    tokens = Tokens(parts.secret_key, parts.clock, timedelta(seconds=settings.access_token_seconds))
    outbox = parts.outbox()
    authenticator = Authenticator(parts.db, tokens, parts.clock)
    app.state.parts = parts
    app.state.tokens = tokens
    app.state.settings = settings
    app.state.objects = parts.objects
    vault = Vault(parts.keyring)
    limiter = RateLimiter(parts.db)
    models = shared or parts.models(outbox)
    app.state.vault = vault
    app.state.directory = models.router.directory
    app.state.listing = models.listing
    app.state.pulse = _pulse(parts, models)
    app.state.crew = CrewFront(
        CrewHints(parts.bus),
        NativeCrew(app.state.pulse),
        models.router.directory,
        settings.tool_hosts,
    )
    app.state.watchers = Watchers()
    app.state.auth = Auth(
        tokens=tokens,
        clock=parts.clock,
        outbox=outbox,
        login_life=timedelta(days=settings.refresh_token_days),
        open_signup=settings.signup == "open",
        demo=None if demo is None else DemoEntrance.of(settings, demo.email, demo.password),
    )
    admission = Admission(authenticator, limiter, _admission_settings(settings), models.meter.count)
    app.state.own_pages = admission
    edge = Edge(
        Routes(app),
        db=parts.db,
        platform_db=parts.platform_db,
        outbox=outbox,
        clock=parts.clock,
        admission=admission,
        idempotency=Idempotency(parts.secret_key, timedelta(hours=settings.idempotency_hours)),
        public_paths=public_paths(),
        settings=EdgeSettings(settings.max_request_bytes, settings.max_object_bytes),
    )
    watch = CredentialWatch(authenticator)
    streams = mount_events(
        app,
        hub=EventHub(parts.db, parts.bus),
        db=parts.db,
        clock=parts.clock,
        admission=admission,
        watch=watch,
    )
    proxy = AiProxy(
        models.router,
        ModelLists(models.listing),
        admission,
        watch,
        max_request_bytes=settings.max_model_request_bytes,
    )
    requests = Requests(edge, proxy, load_ui(settings.base_path))
    return Gateway(
        _with_cors(requests, settings.cors_origins),
        streams,
        watch,
        app.state.watchers,
        models,
        shared is not None,
        settings.base_path,
    )


def _pulse(parts: Parts, models: ModelParts) -> PulseFront:
    settings = parts.settings
    return PulseFront(
        hints=Hints(parts.bus),
        directory=models.router.directory,
        workspaces=Workspaces(
            parts.db,
            parts.objects,
            parts.clock,
            settings.workspaces_dir,
            max_bytes=settings.workspace_bytes,
            max_files=settings.workspace_files,
        ),
        payloads=Payloads(parts.db, parts.objects),
        hosts=settings.tool_hosts,
        no_budget=models.router.escrow.no_budget,
    )


def public_paths() -> list[str]:
    """Paths that work without a credential; all others are refused at the edge."""
    return [
        route.path
        for router in ROUTERS
        for route in router.routes
        if isinstance(route, APIRoute) and (route.openapi_extra or {}).get("security") == []
    ] + ["/api/openapi.json"]


def _admission_settings(settings: Settings) -> AdmissionSettings:
    return AdmissionSettings(
        anonymous_per_minute=settings.anonymous_requests_per_minute,
        trusted_proxies=frozenset(settings.trusted_proxies),
        own_origins=frozenset({settings.origin, *settings.cors_origins}),
    )


def _with_cors(app: ASGIApp, origins: list[str]) -> ASGIApp:
    if not origins:
        return app
    return CORSMiddleware(
        app,
        allow_origins=origins,
        allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
        allow_headers=["Authorization", "Content-Type", "Idempotency-Key"],
        expose_headers=[
            "X-Request-Id",
            "RateLimit-Limit",
            "RateLimit-Remaining",
            "RateLimit-Reset",
            "Retry-After",
            "ETag",
            "Content-Disposition",
        ],
        allow_credentials=True,
    )
