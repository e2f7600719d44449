from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from agentos.tenancy.schemas import Body

# Part of the names of its tools, and models take only these characters there.
ServerName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9](?:[a-z0-9-]{0,22}[a-z0-9])?$")]
HeaderName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$")]
HeaderValue = Annotated[str, StringConstraints(max_length=4000, pattern=r"^[\t\x20-\x7e]*$")]
VariableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")]
# One argument may have 128 KiB, but nobody's command has.
Argument = Annotated[str, StringConstraints(max_length=4000, pattern=r"^[^\x00]*$")]


def _http_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ValueError("must be a URL") from None
    if parts.scheme not in ("http", "https") or not host or port == 0:
        raise ValueError("must be an http:// or https:// URL")
    if parts.username is not None or parts.fragment or not (url.isascii() and url.isprintable()):
        raise ValueError("must be a plain URL; give credentials as headers")
    return url


class SecretValue(Body):
    """A value that is in the vault."""

    secret: Annotated[str, StringConstraints(min_length=1, max_length=200)] = Field(
        description="The name of the secret in the vault.", examples=["github-token"]
    )


class McpServer(Body):
    """An MCP server whose tools a session may use: a remote one by `url`, or one to run by `command`."""

    name: ServerName = Field(examples=["github"])
    url: Annotated[str, StringConstraints(max_length=2000), AfterValidator(_http_url)] | None = (
        Field(
            None,
            description="Where a remote server is (streamable HTTP).",
            examples=["https://mcp.example.com/mcp"],
        )
    )
    headers: Annotated[dict[HeaderName, HeaderValue | SecretValue], Field(max_length=50)] = Field(
        default_factory=dict, description="Sent with every request to `url`."
    )
    command: Annotated[list[Argument], Field(min_length=1, max_length=100)] | None = Field(
        None,
        description="What to run in the sandbox, speaking MCP on its standard streams.",
        examples=[["python3", "server.py"]],
    )
    env: Annotated[dict[VariableName, Argument | SecretValue], Field(max_length=100)] = Field(
        default_factory=dict, description="The environment of `command`."
    )
    tools: Annotated[list[str], Field(max_length=200)] | None = Field(
        None, description="Only these of its tools, by its own names for them. Default: all."
    )
    timeout_seconds: Annotated[int, Field(ge=1, le=3600)] = Field(
        60, description="How long one call may take."
    )

    @model_validator(mode="after")
    def _one_way(self) -> McpServer:
        if (self.url is None) == (self.command is None):
            raise ValueError("give either url or command")
        if self.url is None and self.headers:
            raise ValueError("headers are for a url")
        if self.command is None and self.env:
            raise ValueError("env is for a command")
        return self

    @property
    def secrets(self) -> frozenset[str]:
        """The names of the secrets it needs."""
        values: list[Any] = [*self.headers.values(), *self.env.values()]
        return frozenset(value.secret for value in values if isinstance(value, SecretValue))
