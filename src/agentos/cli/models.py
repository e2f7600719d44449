from __future__ import annotations

import os
import sys
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any

import typer

from agentos.cli.client import Client, Url, segment
from agentos.cli.output import (
    AsJson,
    Column,
    Row,
    cell,
    counted,
    note,
    print_json,
    show_done,
    show_list,
    show_one,
)
from agentos.kernel.errors import Invalid, NotFound

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)
providers = typer.Typer(
    rich_markup_mode=None, no_args_is_help=True, help="The providers whose models you can use."
)
chain = typer.Typer(
    rich_markup_mode=None, no_args_is_help=True, help="Where a call goes when its model fails."
)
prices = typer.Typer(
    rich_markup_mode=None, no_args_is_help=True, help="Prices of your own, over the catalogue's."
)
app.add_typer(providers, name="providers")
app.add_typer(chain, name="chain")
app.add_typer(prices, name="prices")

_PROVIDERS = "/api/models/providers"
_CHAIN = "/api/models/fallback-chain"
_PRICES = "/api/models/prices"
# Kinds that work without a key, so that none is asked for.
_KEYLESS = frozenset({"ollama", "custom"})

Provider = Annotated[str, typer.Argument(help="Name of the provider, or its id.")]
Model = Annotated[str, typer.Argument(help="As provider/model.")]
KeyStdin = Annotated[bool, typer.Option("--key-stdin", help="Read the key from stdin.")]
KeyFromEnv = Annotated[
    str | None,
    typer.Option(metavar="VAR", help="Take the key from this environment variable."),
]
BaseUrl = Annotated[
    str | None, typer.Option(help="Where it is, if not at its usual address.", metavar="URL")
]


@app.command("list")
def list_models(
    provider: Annotated[str | None, typer.Option(help="Only models of this provider.")] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Every model this tenant can use now, with its price in dollars for a million tokens."""
    client = Client.open(url)
    if provider is None:
        found = client.get("/api/models")
    elif provider == "demo":
        found = client.get("/api/models")
        found["items"] = [item for item in found["items"] if item["provider"] == provider]
    else:
        found = client.get(f"{_PROVIDERS}/{_provider(client, provider)['id']}/models")
    if as_json:
        print_json(found)
        return
    for missing in found["unavailable"]:
        note(
            f"{missing['provider']} is missing here: {missing['message']} {missing['advice'] or ''}"
        )
    columns = (
        Column("Model", "id"),
        Column("Input", lambda row: _dollars(row["input_price"], row["price_source"])),
        Column("Output", lambda row: _dollars(row["output_price"], row["price_source"])),
        Column("Price from", "price_source"),
        Column("Context", "context_window"),
    )
    show_list(
        found["items"],
        columns,
        as_json=False,
        empty="No models here. Connect a provider with `agentos models providers add KIND`.",
    )


@app.command()
def estimate(
    model: Annotated[str, typer.Argument(help="As provider/model, by its own name, or auto.")],
    input_tokens: Annotated[
        int | None, typer.Option(min=0, help="How many tokens go in. Default: by TEXT's length.")
    ] = None,
    text: Annotated[str | None, typer.Option(help="What goes in; `-` reads it from stdin.")] = None,
    max_tokens: Annotated[int, typer.Option(min=0, help="How long the answer may be.")] = 1000,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """What a call would cost, before it is made."""
    if (input_tokens is None) == (text is None):
        raise Invalid("How much goes in?", hint="Give either --input-tokens or --text.")
    body: dict[str, Any] = {"model": model, "max_tokens": max_tokens}
    if text is None:
        body["input_tokens"] = input_tokens
    else:
        body["text"] = sys.stdin.read() if text == "-" else text
    found = Client.open(url).post("/api/models/estimate", body)
    if as_json:
        print_json(found)
        return
    amount = f"{found['input_tokens']} tokens in and up to {found['output_tokens']} out"
    which = f"{found['provider']}/{found['model']}"
    if found["cost_micros"] is None:
        show_done(
            f"{amount} at {which}: the price is not known.\n"
            f"Set it with `agentos models prices set {which} --input … --output …`.",
            {},
            as_json=False,
        )
        return
    show_done(
        f"{amount} at {which}: up to {_money(found['cost_micros'])}, "
        f"{_money(found['rated_micros'])} as AgentOS charges it.",
        {},
        as_json=False,
    )


# Providers


@providers.command("list")
def list_providers(url: Url = None, as_json: AsJson = False) -> None:
    """The providers this tenant has connected. The built-in demo model is always there."""
    columns = (
        Column("Name", "name"),
        Column("Kind", "kind"),
        Column("Key ends in", _key_end),
        Column("Address", "base_url"),
        Column("A minute", "requests_per_minute"),
        Column("Connected", "created_at"),
        Column("Id", "id"),
    )
    show_list(
        Client.open(url).items(_PROVIDERS),
        columns,
        as_json=as_json,
        empty="No providers yet; only the built-in demo model is there. Connect one with "
        "`agentos models providers add KIND`, or look for a local Ollama with "
        "`agentos models providers detect`.",
    )


@providers.command("add")
def add_provider(
    kind: Annotated[
        str,
        typer.Argument(
            help="anthropic, openai, google, mistral, groq, openrouter, ollama, "
            "or custom for anything else that speaks OpenAI's protocol."
        ),
    ],
    name: Annotated[
        str | None, typer.Option(help="How models name it: name/model. Default: its kind.")
    ] = None,
    base_url: BaseUrl = None,
    key_stdin: KeyStdin = False,
    key_from_env: KeyFromEnv = None,
    requests_per_minute: Annotated[
        int | None, typer.Option(min=1, help="So many calls a minute at most; more wait.")
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Connect a provider. Its key is asked for, unless --key-stdin or --key-from-env says where it is."""
    client = Client.open(url)
    given = {"name": name, "base_url": base_url, "requests_per_minute": requests_per_minute}
    body: dict[str, Any] = {"kind": kind} | {k: v for k, v in given.items() if v is not None}
    if key_stdin or key_from_env is not None or kind not in _KEYLESS:
        body["key"] = _key(key_stdin, key_from_env)
    made = client.post(_PROVIDERS, body)
    show_done(
        f"Connected {made['name']}. Try it with `agentos models providers test {made['name']}`.",
        made,
        as_json=as_json,
    )


@providers.command("update")
def update_provider(
    provider: Provider,
    base_url: BaseUrl = None,
    key_stdin: KeyStdin = False,
    key_from_env: KeyFromEnv = None,
    remove_key: Annotated[
        bool, typer.Option("--remove-key", help="From now on it is called without a key.")
    ] = False,
    requests_per_minute: Annotated[
        int | None, typer.Option(min=0, help="So many calls a minute at most; 0: no limit.")
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Give a provider a new key, or change its address or limit. A new address needs the key again."""
    client = Client.open(url)
    known = _provider(client, provider)
    body: dict[str, Any] = {}
    if base_url is not None:
        body["base_url"] = base_url
    if requests_per_minute is not None:
        body["requests_per_minute"] = requests_per_minute or None
    keyed = known["last_four"] is not None
    if remove_key:
        body["key"] = None
    elif key_stdin or key_from_env is not None or not body or (base_url is not None and keyed):
        body["key"] = _key(key_stdin, key_from_env)
    changed = client.patch(f"{_PROVIDERS}/{known['id']}", body)
    show_done(f"Changed {changed['name']}.", changed, as_json=as_json)


@providers.command("test")
def try_provider(provider: Provider, url: Url = None, as_json: AsJson = False) -> None:
    """Try whether a provider answers and takes its key; ends with 1 if not. Costs nothing."""
    client = Client.open(url)
    known = _provider(client, provider)
    found = client.post(f"{_PROVIDERS}/{known['id']}/test")
    if found["ok"]:
        models = counted(found["models"], "model")
        sentence = f"{known['name']} works: {models}, answered in {found['latency_ms']} ms."
    else:
        sentence = f"{known['name']} does not work ({found['error_class']}): {found['message']}"
        sentence += f"\n{found['advice']}" if found["advice"] else ""
    show_done(sentence, found, as_json=as_json)
    if not found["ok"]:
        raise typer.Exit(1)


@providers.command("remove")
def remove_provider(provider: Provider, url: Url = None, as_json: AsJson = False) -> None:
    """Remove a provider, its key and its prices. Refused while the fallback chain names it."""
    client = Client.open(url)
    known = _provider(client, provider)
    client.delete(f"{_PROVIDERS}/{known['id']}")
    show_done(f"Removed {known['name']}.", {"removed": known["id"]}, as_json=as_json)


@providers.command("detect")
def detect_providers(url: Url = None, as_json: AsJson = False) -> None:
    """Look for a provider on the gateway's machine: a local Ollama."""
    columns = (
        Column("Kind", "kind"),
        Column("Address", "base_url"),
        Column("Models", "models"),
        Column("Connect it with", lambda row: f"agentos models providers add {row['kind']}"),
    )
    show_list(
        Client.open(url).get(f"{_PROVIDERS}/detected")["items"],
        columns,
        as_json=as_json,
        empty="No Ollama answers on the gateway's machine. Start one with `ollama serve`, or say "
        "where it is: `agentos models providers add ollama --base-url URL`.",
    )


# The fallback chain


@chain.command("show")
def show_chain(url: Url = None, as_json: AsJson = False) -> None:
    """Where a call goes when its first choice fails."""
    found = Client.open(url).get(_CHAIN)
    if as_json or found["targets"]:
        show_one(found, as_json=as_json)
        return
    print("No fallback chain. Set one with `agentos models chain set PROVIDER/MODEL …`.")


@chain.command("set")
def set_chain(
    targets: Annotated[
        list[str], typer.Argument(help="provider/model, in the order in which they are tried.")
    ],
    on: Annotated[
        list[str] | None,
        typer.Option(
            help="Fall back after this: overload, rate_limit, timeout, auth, context_length; "
            "repeatable. Default: the first three."
        ),
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Set where a call goes when its first choice fails."""
    body: dict[str, Any] = {"targets": targets}
    if on:
        body["fall_back_on"] = on
    made = Client.open(url).put(_CHAIN, body)
    show_done(
        f"{' → '.join(made['targets'])}, after {cell(made['fall_back_on'])}.",
        made,
        as_json=as_json,
    )


@chain.command("clear")
def clear_chain(url: Url = None, as_json: AsJson = False) -> None:
    """Remove the fallback chain."""
    Client.open(url).delete(_CHAIN)
    show_done("There is no fallback chain now.", {"targets": []}, as_json=as_json)


# Prices


@prices.command("list")
def list_prices(url: Url = None, as_json: AsJson = False) -> None:
    """The tenant's own prices, in dollars for a million tokens; with --json in micro-dollars."""
    columns = (
        Column("Model", lambda row: f"{row['provider']}/{row['model']}"),
        Column("Input", lambda row: _dollars(row["input"])),
        Column("Output", lambda row: _dollars(row["output"])),
        Column("Cache read", lambda row: _dollars(row["cache_read"])),
        Column("Cache write", lambda row: _dollars(row["cache_write"])),
        Column("Changed", "updated_at"),
    )
    show_list(
        Client.open(url).items(_PRICES),
        columns,
        as_json=as_json,
        empty="No prices of your own; the catalogue's hold. Set one with "
        "`agentos models prices set PROVIDER/MODEL --input DOLLARS --output DOLLARS`.",
    )


@prices.command("set")
def set_price(
    model: Model,
    input: Annotated[
        str, typer.Option(metavar="DOLLARS", help="For a million input tokens, such as 2.50.")
    ],
    output: Annotated[str, typer.Option(metavar="DOLLARS", help="For a million output tokens.")],
    cache_read: Annotated[
        str | None,
        typer.Option(metavar="DOLLARS", help="For input from a cache. Default: as input."),
    ] = None,
    cache_write: Annotated[
        str | None,
        typer.Option(metavar="DOLLARS", help="For input into a cache. Default: as input."),
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Set what a model costs you, whatever the catalogue says."""
    provider, name = _split(model)
    body: dict[str, Any] = {"provider": provider, "model": name}
    body |= {"input": _micros(input), "output": _micros(output)}
    if cache_read is not None:
        body["cache_read"] = _micros(cache_read)
    if cache_write is not None:
        body["cache_write"] = _micros(cache_write)
    made = Client.open(url).put(_PRICES, body)
    show_done(
        f"{model} costs {_dollars(made['input'])} for a million tokens in, "
        f"{_dollars(made['output'])} for a million out.",
        made,
        as_json=as_json,
    )


@prices.command("remove")
def remove_price(model: Model, url: Url = None, as_json: AsJson = False) -> None:
    """Remove a price of your own; the catalogue's holds again."""
    provider, name = _split(model)
    client = Client.open(url)
    found = [
        price
        for price in client.items(_PRICES)
        if (price["provider"], price["model"]) == (provider, name)
    ]
    if not found:
        raise NotFound(
            "There is no price of your own for this model.",
            hint="`agentos models prices list` shows the ones there are.",
        )
    client.delete(f"{_PRICES}/{segment(found[0]['id'])}")
    show_done(f"Removed the price of {model}.", {"removed": found[0]["id"]}, as_json=as_json)


def _provider(client: Client, text: str) -> Row:
    """The provider of this name or id."""
    for row in client.items(_PROVIDERS):
        if text in (row["name"], row["id"]):
            return row
    raise NotFound(
        "No provider is connected under this name.",
        hint="`agentos models providers list` shows the ones there are.",
    )


def _key(from_stdin: bool, variable: str | None) -> str:
    """The key from where nobody else sees it: process lists and shell histories show arguments."""
    if from_stdin:
        return sys.stdin.readline().strip()
    if variable is not None:
        if variable not in os.environ:
            raise Invalid(f"The environment variable {variable} is not set.")
        return os.environ[variable]
    if not sys.stdin.isatty():
        raise Invalid("Where is the key?", hint="Use --key-stdin or --key-from-env VAR.")
    answer: str = typer.prompt("Key", hide_input=True, err=True)
    return answer


def _key_end(row: Row) -> object:
    return "(short)" if row["last_four"] == "" else row["last_four"]


def _split(model: str) -> tuple[str, str]:
    provider, slash, name = model.partition("/")
    if not slash or not name:
        raise Invalid("Which model?", hint="Write it as provider/model.")
    return provider, name


def _micros(text: str) -> int:
    """Dollars as a person writes them, in whole micro-dollars."""
    try:
        amount = Decimal(text.removeprefix("$")) * 1_000_000
        if amount.is_finite() and amount >= 0 and amount == int(amount):
            return int(amount)
    except InvalidOperation:
        pass
    raise Invalid(f"'{text}' is not a price.", hint="Write dollars, such as 2.50.")


def _dollars(micros: int | None, source: str | None = None) -> str:
    if source == "free":
        return "free"
    return "unknown" if micros is None else _money(micros)


def _money(micros: int) -> str:
    """Dollars with as many digits as it takes, and two at least."""
    digits = f"{micros / 1_000_000:.6f}".rstrip("0")
    whole, _, fraction = digits.partition(".")
    return f"${whole}.{fraction.ljust(2, '0')}"
