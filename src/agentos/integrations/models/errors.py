from __future__ import annotations

from agentos.kernel.errors import Conflict, Invalid


class BadBaseUrl(Invalid):
    """The address of a provider is a plain http:// or https:// URL, without user name or query."""

    code = "bad_base_url"
    hint = "It looks like https://models.example.com/v1."


class HostNotAllowed(Invalid):
    """This installation does not connect tenants to private or local addresses."""

    code = "host_not_allowed"
    hint = "Use an address on the internet, or ask the operator (AGENTOS_MODEL_HOSTS)."


class BaseUrlMissing(Invalid):
    """A provider of this kind has no address of its own: say where it is."""

    code = "base_url_missing"
    hint = "Give base_url, such as https://models.example.com/v1."


class KeyMissing(Invalid):
    """A provider of this kind needs a key."""

    code = "provider_key_missing"
    hint = "Make one in the provider's console, and give it as `key`."


class KeyNeededAgain(Invalid):
    """A key goes only where it was given for: with a new address, give the key again."""

    code = "provider_key_needed_again"
    hint = "Send `key` together with `base_url`."


class ProviderKeyLost(Conflict):
    """The key of this provider cannot be read from the vault."""

    code = "provider_key_lost"
    hint = "Give the key again: `agentos models providers update NAME`."


class ProviderNameTaken(Conflict):
    """There is already a provider of this name, or a secret in the vault that its key would replace."""

    code = "provider_name_taken"
    hint = "Choose another name; `agentos models providers list` shows the ones in use."


class ProviderInChain(Conflict):
    """The fallback chain names this provider."""

    code = "provider_in_chain"
    hint = "Take it out of the chain first (`agentos models chain set`), or clear the chain."


class BadChain(Invalid):
    """The fallback chain is not valid."""

    code = "bad_fallback_chain"
    hint = "Write each target as provider/model, with the name of a connected provider, each once."


class ProviderUnknown(Invalid):
    """No connected provider has this name."""

    code = "provider_unknown"
    hint = "`agentos models providers list` shows the names; the built-in model's is `demo`."
