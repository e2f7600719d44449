"""Plans as data, and the one use-case that enforces their limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from agentos.kernel.errors import AgentOSError, Kind

Unlimited = None


@dataclass(frozen=True)
class Plan:
    """What a tenant may use. None means unlimited."""

    name: str
    concurrent_sessions: int | None
    session_minutes: int | None
    heartbeat_checks: int | None
    dreams: int | None
    private_skills: bool
    self_hosted_skills: bool
    model_providers: int | None
    team_members: int | None
    tokens_per_month: int | None
    support: Literal["community", "dedicated"]
    uptime_percent: float | None
    monthly_price_usd: int | None
    # Beyond the published tiers: what a shared machine needs to stay fair.
    requests_per_minute: int
    storage_bytes: int | None
    vault_secrets: int | None
    api_keys: int | None
    concurrent_model_calls: int | None
    # Teams of CLI agents that are deployed at once, and what each may take of a machine.
    deployed_teams: int | None
    team_memory_mb: int
    team_cpu_percent: int
    team_processes: int
    # Not a limit: calls beyond it are charged for.
    api_calls_per_month: int | None


_GB = 1_000_000_000

PLANS: dict[str, Plan] = {
    plan.name: plan
    for plan in (
        Plan(
            name="free",
            concurrent_sessions=2,
            session_minutes=5,
            heartbeat_checks=5,
            dreams=10,
            private_skills=False,
            self_hosted_skills=False,
            model_providers=1,
            team_members=1,
            tokens_per_month=1_000_000,
            support="community",
            uptime_percent=None,
            monthly_price_usd=0,
            requests_per_minute=600,
            storage_bytes=1 * _GB,
            vault_secrets=50,
            api_keys=20,
            concurrent_model_calls=4,
            deployed_teams=2,
            team_memory_mb=2_048,
            team_cpu_percent=100,
            team_processes=256,
            api_calls_per_month=100_000,
        ),
        Plan(
            name="pro",
            concurrent_sessions=20,
            session_minutes=30,
            heartbeat_checks=50,
            dreams=100,
            private_skills=True,
            self_hosted_skills=False,
            model_providers=Unlimited,
            team_members=10,
            tokens_per_month=50_000_000,
            support="dedicated",
            uptime_percent=99.9,
            monthly_price_usd=49,
            requests_per_minute=6_000,
            storage_bytes=100 * _GB,
            vault_secrets=1_000,
            api_keys=200,
            concurrent_model_calls=50,
            deployed_teams=20,
            team_memory_mb=4_096,
            team_cpu_percent=200,
            team_processes=512,
            api_calls_per_month=5_000_000,
        ),
        Plan(
            name="enterprise",
            concurrent_sessions=Unlimited,
            session_minutes=Unlimited,
            heartbeat_checks=Unlimited,
            dreams=Unlimited,
            private_skills=True,
            self_hosted_skills=True,
            model_providers=Unlimited,
            team_members=Unlimited,
            tokens_per_month=Unlimited,
            support="dedicated",
            uptime_percent=99.9,
            monthly_price_usd=None,
            requests_per_minute=60_000,
            storage_bytes=Unlimited,
            vault_secrets=Unlimited,
            api_keys=Unlimited,
            concurrent_model_calls=Unlimited,
            deployed_teams=Unlimited,
            team_memory_mb=8_192,
            team_cpu_percent=400,
            team_processes=1_024,
            api_calls_per_month=Unlimited,
        ),
    )
}

LIMITS = tuple(
    f.name
    for f in fields(Plan)
    if f.name not in ("name", "support", "uptime_percent", "monthly_price_usd")
)


class PlanLimitReached(AgentOSError):
    """The plan of this tenant does not allow more."""

    code = "plan_limit_reached"
    kind = Kind.PLAN


def plan_for(name: str, limits: Mapping[str, Any]) -> Plan:
    """A tenant's plan with the limits agreed for it alone."""
    plan = PLANS[name]
    agreed = {key: value for key, value in limits.items() if key in LIMITS}
    return replace(plan, **agreed) if agreed else plan


def check_limits(limits: Mapping[str, Any]) -> None:
    """Raises ValueError unless each is a limit of the plans with a value of its kind."""
    kinds = {field.name: field.type for field in fields(Plan)}
    for name, value in limits.items():
        if name not in LIMITS:
            raise ValueError(f"there is no limit {name}; there are: {', '.join(LIMITS)}")
        is_switch = kinds[name] == "bool"
        if is_switch != isinstance(value, bool):
            raise ValueError(
                f"{name} must be {'true or false' if is_switch else 'a number or null'}"
            )
        if value is None and kinds[name] == "int":
            raise ValueError(f"{name} must be a number")
        if not is_switch and value is not None and not 0 <= value <= 2**53:
            raise ValueError(f"{name} must be between 0 and 2^53")
