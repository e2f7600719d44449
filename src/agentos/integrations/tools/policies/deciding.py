"""Whether a tool may be used: a pure function of the tenant's policies and the tool."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from agentos.integrations.tools.base import Tier, ToolSpec


class Decision(StrEnum):
    ALLOW = "allow"
    # A person is asked each time.
    ASK = "ask"
    DENY = "deny"


# A tenant's decisions by subject: a tool, `prefix*` or `tier:…`.
Policies = Mapping[str, Decision]

DEFAULTS: Mapping[Tier, Decision] = {
    Tier.SAFE: Decision.ALLOW,
    Tier.DANGEROUS: Decision.ALLOW,
    Tier.DESTRUCTIVE: Decision.ASK,
}


def decide(policies: Policies, spec: ToolSpec) -> Decision:
    """The most specific policy decides: the tool, else the longest pattern, the tier, the default."""
    if spec.name in policies:
        return policies[spec.name]
    patterns = [s for s in policies if s.endswith("*") and spec.name.startswith(s[:-1])]
    if patterns:
        return policies[max(patterns, key=len)]
    return policies.get(f"tier:{spec.tier}", DEFAULTS[spec.tier])
