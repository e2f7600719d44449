"""Every setting of AgentOS, in one place. `agentos config` prints the effective values.

Each field can be set by the environment variable in its alias, or in a file `agentos.env` in the
current directory. The three URLs keep their customary bare names.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import AliasChoices, Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from agentos.kernel.errors import SetupError

_DEFAULT_PORTS = {"http": 80, "https": 443}
# Written into pages and cookies as it is.
_PATH = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._~-]+)*")
_TAKEN = ("/api", "/health", "/metrics", "/assets")


def default_data_dir() -> Path:
    """Where an installation lives unless told otherwise: the system's place for root, else XDG's."""
    if os.geteuid() == 0:
        return Path("/var/lib/agentos")
    base = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(base) / "agentos"


def _env(*names: str) -> AliasChoices:
    return AliasChoices(*names)


class Settings(BaseSettings):
    model_config = SettingsConfigDict(
        env_file=("agentos.env",), env_ignore_empty=True, extra="ignore", populate_by_name=True
    )

    # Where things are
    data_dir: Path = Field(
        default_factory=default_data_dir,
        validation_alias=_env("AGENTOS_DATA_DIR"),
        description="Everything this installation keeps on disk.",
    )
    database_url: SecretStr | None = Field(
        None,
        validation_alias=_env("DATABASE_URL"),
        description="External PostgreSQL, as the role that may migrate. Unset: embedded.",
    )
    database_runtime_url: SecretStr | None = Field(
        None,
        validation_alias=_env("DATABASE_RUNTIME_URL"),
        description="Runtime role, if a DBA made it. Unset: derived from DATABASE_URL.",
    )
    database_platform_url: SecretStr | None = Field(
        None,
        validation_alias=_env("DATABASE_PLATFORM_URL"),
        description="Platform role, if a DBA made it. Unset: derived from DATABASE_URL.",
    )
    database_pool_size: int = Field(
        16,
        ge=2,
        le=200,
        validation_alias=_env("AGENTOS_DATABASE_POOL_SIZE"),
        description="Connections of the runtime pool in each process.",
    )
    nats_url: SecretStr | None = Field(
        None,
        validation_alias=_env("NATS_URL"),
        description="External NATS with JetStream. Unset: embedded.",
    )
    nats_monitor_url: str | None = Field(
        None,
        validation_alias=_env("NATS_MONITOR_URL"),
        description="Monitoring address of an external NATS, used to check JetStream's sync.",
    )
    object_store_url: SecretStr | None = Field(
        None,
        validation_alias=_env("OBJECT_STORE_URL"),
        description="file:///path or s3://bucket/prefix. Unset: the data directory.",
    )

    # Secrets
    secret_key: SecretStr | None = Field(
        None,
        validation_alias=_env("AGENTOS_SECRET_KEY"),
        description="64 hex digits shared by all processes; everything else derives from it. "
        "Unset: made at the first start and kept in the data directory.",
    )
    kek: SecretStr | None = Field(
        None,
        validation_alias=_env("AGENTOS_KEK"),
        description="Vault key-encryption keys `id:64hex[,id:64hex…]`, newest first. "
        "Unset: a file in the data directory.",
    )

    # The edge
    host: str = Field(
        "127.0.0.1", validation_alias=_env("AGENTOS_HOST"), description="Address to listen on."
    )
    port: int = Field(
        8700,
        ge=0,
        le=65535,
        validation_alias=_env("AGENTOS_PORT"),
        description="Port to listen on.",
    )
    public_url: str | None = Field(
        None,
        validation_alias=_env("AGENTOS_PUBLIC_URL"),
        description="Address users see, when a proxy stands in front. May have a path: "
        "https://example.com/agentos.",
    )
    cors_origins: list[str] = Field(
        default_factory=list,
        validation_alias=_env("AGENTOS_CORS_ORIGINS"),
        description="Other origins whose pages may call the API, as a JSON list.",
    )
    trusted_proxies: list[str] = Field(
        default_factory=list,
        validation_alias=_env("AGENTOS_TRUSTED_PROXIES"),
        description="Addresses whose X-Forwarded-For is believed, as a JSON list.",
    )
    anonymous_requests_per_minute: int = Field(
        60,
        ge=1,
        validation_alias=_env("AGENTOS_ANONYMOUS_REQUESTS_PER_MINUTE"),
        description="Sign-ins and the like from one address.",
    )
    max_request_bytes: int = Field(
        1_048_576,
        ge=1024,
        validation_alias=_env("AGENTOS_MAX_REQUEST_BYTES"),
        description="Largest JSON request body.",
    )
    max_object_bytes: int = Field(
        104_857_600,
        ge=1024,
        validation_alias=_env("AGENTOS_MAX_OBJECT_BYTES"),
        description="Largest object upload.",
    )
    max_model_request_bytes: int = Field(
        33_554_432,
        ge=1024,
        validation_alias=_env("AGENTOS_MAX_MODEL_REQUEST_BYTES"),
        description="Largest request to a model, images included.",
    )
    model_timeout_seconds: float = Field(
        600,
        gt=0,
        validation_alias=_env("AGENTOS_MODEL_TIMEOUT_SECONDS"),
        description="Longest a provider may stay silent, before its first byte or between two.",
    )
    model_queue_seconds: float = Field(
        30,
        ge=0,
        validation_alias=_env("AGENTOS_MODEL_QUEUE_SECONDS"),
        description="Longest a model call waits for its turn (concurrent calls, provider limits).",
    )
    ollama_url: str = Field(
        "http://127.0.0.1:11434",
        validation_alias=_env("AGENTOS_OLLAMA_URL"),
        description="Where a local Ollama is looked for.",
    )
    model_hosts: Literal["any", "public"] = Field(
        "any",
        validation_alias=_env("AGENTOS_MODEL_HOSTS"),
        description="public: tenants may not connect providers on private or local addresses.",
    )
    sandbox: Literal["auto", "bubblewrap", "landlock", "none"] = Field(
        "auto",
        validation_alias=_env("AGENTOS_SANDBOX"),
        description="What isolates commands. auto: the best this machine has. none: none is run.",
    )
    tool_hosts: Literal["any", "public"] = Field(
        "public",
        validation_alias=_env("AGENTOS_TOOL_HOSTS"),
        description="any: sessions may list private and local addresses among their allowed hosts.",
    )
    worker_sessions: int = Field(
        64,
        ge=1,
        le=10_000,
        validation_alias=_env("AGENTOS_WORKER_SESSIONS"),
        description="Sessions that one worker works on at once.",
    )
    drain_seconds: float = Field(
        20,
        ge=0,
        validation_alias=_env("AGENTOS_DRAIN_SECONDS"),
        description="Longest a stopping worker waits for the steps it is at.",
    )
    workspace_bytes: int = Field(
        1_073_741_824,
        ge=1_048_576,
        validation_alias=_env("AGENTOS_WORKSPACE_BYTES"),
        description="Most bytes in one workspace.",
    )
    workspace_files: int = Field(
        100_000,
        ge=100,
        validation_alias=_env("AGENTOS_WORKSPACE_FILES"),
        description="Most files in one workspace.",
    )
    gateway_url: str | None = Field(
        None,
        validation_alias=_env("AGENTOS_GATEWAY_URL"),
        description="Where workers reach the gateway for their teams' model calls. "
        "Unset: AGENTOS_HOST and AGENTOS_PORT on this machine.",
    )
    agents_dir: Path | None = Field(
        None,
        validation_alias=_env("AGENTOS_AGENTS_DIR"),
        description="Where agent CLIs are installed. Unset: `agents` in the data directory.",
    )
    docker_host: str = Field(
        "unix:///var/run/docker.sock",
        validation_alias=_env("DOCKER_HOST"),
        description="The Docker engine for teams with the docker runtime.",
    )
    docker_image: str = Field(
        "agentos-agent",
        validation_alias=_env("AGENTOS_DOCKER_IMAGE"),
        description="The image of a team's leader container; see deploy/.",
    )
    docker_mounts: list[str] = Field(
        default_factory=list,
        validation_alias=_env("AGENTOS_DOCKER_MOUNTS"),
        description="Directories of this machine to show the containers, read-only, as a JSON list "
        "of `host:container`.",
    )
    scheduler_max_concurrent: int = Field(
        10,
        ge=1,
        le=10_000,
        validation_alias=_env("SCHEDULER_MAX_CONCURRENT"),
        description="Runs of schedules that may be going on at once.",
    )
    run_retention_days: int = Field(
        90,
        ge=1,
        validation_alias=_env("AGENTOS_RUN_RETENTION_DAYS"),
        description="How long finished runs of schedules and webhooks are kept.",
    )
    signup: Literal["open", "invite"] = Field(
        "invite",
        validation_alias=_env("AGENTOS_SIGNUP"),
        description="open: anyone may register a tenant. invite: only invited people join.",
    )
    metrics_token: SecretStr | None = Field(
        None,
        validation_alias=_env("AGENTOS_METRICS_TOKEN"),
        description="Bearer token that /metrics asks for. Unset: open to whoever reaches the port.",
    )

    # Lifetimes
    access_token_seconds: int = Field(
        900,
        ge=30,
        validation_alias=_env("AGENTOS_ACCESS_TOKEN_SECONDS"),
        description="Life of an access token.",
    )
    refresh_token_days: int = Field(
        30,
        ge=1,
        validation_alias=_env("AGENTOS_REFRESH_TOKEN_DAYS"),
        description="Life of a sign-in without use.",
    )
    event_retention_days: int = Field(
        30,
        ge=1,
        validation_alias=_env("AGENTOS_EVENT_RETENTION_DAYS"),
        description="How long event history is kept.",
    )
    session_retention_days: int = Field(
        90,
        ge=1,
        validation_alias=_env("AGENTOS_SESSION_RETENTION_DAYS"),
        description="How long ended sessions are kept, with their files.",
    )
    idempotency_hours: int = Field(
        24,
        ge=1,
        validation_alias=_env("AGENTOS_IDEMPOTENCY_HOURS"),
        description="How long an Idempotency-Key is remembered.",
    )

    # Operation
    auto_migrate: bool = Field(
        True,
        validation_alias=_env("AGENTOS_AUTO_MIGRATE"),
        description="Bring the schema up to date at start.",
    )
    log_format: Literal["auto", "console", "json"] = Field(
        "auto",
        validation_alias=_env("AGENTOS_LOG_FORMAT"),
        description="auto: console on a terminal, JSON elsewhere.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info",
        validation_alias=_env("AGENTOS_LOG_LEVEL"),
        description="Least severe level that is logged.",
    )
    otlp_endpoint: str | None = Field(
        None,
        validation_alias=_env("AGENTOS_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"),
        description="OpenTelemetry collector (HTTP). Unset: no traces leave the process.",
    )

    @field_validator("secret_key")
    @classmethod
    def _is_a_key(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            parse_key(value.get_secret_value())
        return value

    @field_validator("public_url")
    @classmethod
    def _is_an_address(cls, value: str | None) -> str | None:
        return value if value is None else parse_public_url(value)

    @field_validator("data_dir")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return value.expanduser().absolute()

    @property
    def ledger_dir(self) -> Path:
        """Where processes spool what they book."""
        return self.data_dir / "ledger"

    @property
    def workspaces_dir(self) -> Path:
        """Where sessions have their files while they are worked on."""
        return self.data_dir / "workspaces"

    @property
    def cli_agents_dir(self) -> Path:
        """Where agent CLIs are installed."""
        return self.agents_dir or self.data_dir / "agents"

    @property
    def embedded_postgres(self) -> bool:
        return self.database_url is None and self.database_runtime_url is None

    @property
    def embedded_nats(self) -> bool:
        return self.nats_url is None

    @property
    def url(self) -> str:
        """The address to show people."""
        host = "127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host  # noqa: S104 - compared, not bound
        place = f"[{host}]" if ":" in host else host
        return self.public_url or f"http://{place}:{self.port}"

    @property
    def origin(self) -> str:
        """The origin of our own pages, as browsers write it."""
        parts = urlsplit(self.url)
        host = parts.hostname or ""
        place = f"[{host}]" if ":" in host else host
        usual = parts.port in (None, _DEFAULT_PORTS[parts.scheme])
        return f"{parts.scheme}://{place}" if usual else f"{parts.scheme}://{place}:{parts.port}"

    @property
    def base_path(self) -> str:
        """The path below which users see us: empty, or like `/agentos`."""
        return urlsplit(self.url).path


def parse_key(text: str) -> bytes:
    try:
        key = bytes.fromhex(text.strip())
    except ValueError:
        key = b""
    if len(key) != 32:
        raise ValueError("must be 64 hexadecimal digits; make one with: openssl rand -hex 32")
    return key


def parse_public_url(text: str) -> str:
    """The address without a slash at its end."""
    try:
        parts = urlsplit(text.strip().rstrip("/"))
        wrong = parts.port == 0
    except ValueError:
        raise ValueError("must be an address like https://example.com/agentos") from None
    if wrong or parts.scheme not in _DEFAULT_PORTS or not parts.hostname or "@" in parts.netloc:
        raise ValueError("must be an address like https://example.com/agentos")
    if parts.query or parts.fragment or not _PATH.fullmatch(parts.path):
        raise ValueError("may have a plain path such as /agentos, and nothing after it")
    if any(f"{parts.path}/".startswith(f"{taken}/") for taken in _TAKEN):
        raise ValueError(f"may not have a path that begins with {', '.join(_TAKEN)}")
    return parts.geturl()


def load_settings(**overrides: object) -> Settings:
    """Settings from the environment; a wrong one is named with what it should be."""
    from pydantic import ValidationError

    try:
        return Settings(**overrides)  # type: ignore[arg-type]
    except ValidationError as error:
        wrong = "; ".join(f"{e['loc'][0]}: {e['msg']}" for e in error.errors(include_input=False))
        raise SetupError(
            f"These settings are not valid: {wrong}", hint="`agentos config --help` lists them all."
        ) from None
