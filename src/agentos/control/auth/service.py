"""Signing in, staying signed in, and finding out who is asking."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

import asyncpg

from agentos.control.auth import repository
from agentos.control.auth.demo import DemoEntrance
from agentos.control.auth.errors import (
    DemoUnavailable,
    EmailTaken,
    NoTenant,
    RefreshTokenReused,
    SignInEnded,
    SignupClosed,
    WrongCredentials,
)
from agentos.control.auth.schemas import (
    LoginRead,
    PasswordChange,
    Register,
    SignIn,
    TenantOfUser,
    TokenPair,
    WhoAmI,
)
from agentos.control.members import service as members
from agentos.control.members.errors import NameNeeded
from agentos.control.members.schemas import InvitationAccept
from agentos.control.tenants import service as tenants
from agentos.kernel.clock import Clock
from agentos.kernel.database import Transaction
from agentos.kernel.errors import NotFound
from agentos.kernel.ids import LoginId, TenantId, UserId, uuid7
from agentos.kernel.outbox import Outbox
from agentos.tenancy.passwords import hash_password, verify_password
from agentos.tenancy.principals import Forbidden, Principal, PrincipalKind
from agentos.tenancy.tokens import RefreshClaims, Tokens
from agentos.tenancy.work import Work

# How far apart requests of one browser with the same refresh token may be.
_SAME_MOMENT = timedelta(seconds=20)


@dataclass(frozen=True)
class Auth:
    """The use-cases of people who are not signed in yet."""

    tokens: Tokens
    clock: Clock
    outbox: Outbox
    login_life: timedelta
    open_signup: bool
    demo: DemoEntrance | None = None

    async def sign_in(
        self, tx: Transaction, body: SignIn, user_agent: str, request_id: str | None
    ) -> TokenPair:
        user = await repository.user_by_email(tx, body.email)
        if not await verify_password(user["password_hash"] if user else None, body.password):
            raise WrongCredentials()
        assert user is not None
        await tx.set("app.user_id", str(user["id"]))
        tenant = await self._choose_tenant(tx, user["id"], body.tenant)
        return await self._begin_login(tx, user, tenant["id"], user_agent, request_id)

    async def demo_is_open(self, tx: Transaction) -> bool:
        return self.demo is not None and await self.demo.is_open(tx)

    async def sign_in_to_demo(
        self, tx: Transaction, user_agent: str, request_id: str | None
    ) -> TokenPair:
        """Signs the demo owner in, with the password that `agentos up` prints."""
        if self.demo is None or not await self.demo.is_open(tx):
            raise DemoUnavailable()
        return await self.sign_in(tx, self.demo.credentials(), user_agent, request_id)

    async def register(
        self, tx: Transaction, body: Register, user_agent: str, request_id: str | None
    ) -> TokenPair:
        """A new user with a tenant of their own."""
        if not self.open_signup:
            raise SignupClosed()
        user_id = UserId(uuid7())
        await create_user(tx, user_id, body.email, body.name, body.password)
        user = await repository.user_by_id(tx, user_id)
        assert user is not None
        tenant_id = TenantId(uuid7())
        work = Work(tx, _member(user, tenant_id), self.outbox, self.clock, request_id)
        await tenants.found_tenant(
            work, body.tenant_name, body.tenant_slug, owner=user_id, email=body.email
        )
        return await self._begin_login(tx, user, tenant_id, user_agent, request_id)

    async def accept_invitation(
        self, tx: Transaction, body: InvitationAccept, user_agent: str, request_id: str | None
    ) -> TokenPair:
        """Joins the tenant that sent the invitation, with a new account or an existing one."""
        invitation = await members.redeem_invitation(tx, body.token, self.clock.now())
        user = await self._user_of_invitation(tx, invitation.email, body)
        work = Work(tx, _member(user, invitation.tenant_id), self.outbox, self.clock, request_id)
        await members.join(work, user["id"], user["email"], invitation.role)
        return await self._begin_login(tx, user, invitation.tenant_id, user_agent, request_id)

    async def _user_of_invitation(
        self, tx: Transaction, email: str, body: InvitationAccept
    ) -> asyncpg.Record:
        user = await repository.user_by_email(tx, email)
        if user is not None:
            if not await verify_password(user["password_hash"], body.password):
                raise WrongCredentials("You have an account; the password is not the one it has.")
            await tx.set("app.user_id", str(user["id"]))
            return user
        if body.name is None:
            raise NameNeeded()
        await create_user(tx, UserId(uuid7()), email, body.name, body.password)
        created = await repository.user_by_email(tx, email)
        assert created is not None
        return created

    async def refresh(
        self,
        tx: Transaction,
        refresh_token: str,
        tenant: str | None,
        request_id: str | None,
        *,
        in_browser: bool = False,
    ) -> TokenPair:
        """Trades a refresh token for a new pair. One that was traded before ends the sign-in.

        All tabs of a browser hold the same token, and a page that is left never sees the answer:
        for a moment, a token that was just traded brings its successor once more. The two are of
        the same generation, so the second of them to be traded is found out like any other.
        """
        claims = self.tokens.read_refresh(refresh_token)
        await tx.set("app.user_id", str(claims.user_id))
        now = self.clock.now()
        until = now + self.login_life
        if not await repository.rotate_login(
            tx, claims.user_id, claims.login_id, claims.generation, now, until
        ) and not (in_browser and await self._was_just_traded(tx, claims)):
            await self._refuse_refresh(tx, claims, request_id)
        chosen = await self._choose_tenant(tx, claims.user_id, tenant, claims.tenant_id)
        return self._pair(
            claims.user_id, TenantId(chosen["id"]), claims.login_id, claims.generation + 1
        )

    async def _was_just_traded(self, tx: Transaction, claims: RefreshClaims) -> bool:
        return await repository.was_rotated_since(
            tx, claims.user_id, claims.login_id, claims.generation, self.clock.now() - _SAME_MOMENT
        )

    async def sign_out(self, tx: Transaction, refresh_token: str, request_id: str | None) -> None:
        """Ends the sign-in of this refresh token; ending an ended one is fine."""
        claims = self.tokens.read_refresh(refresh_token)
        await tx.set("app.user_id", str(claims.user_id))
        await self._end_login(tx, claims, "signed out", "user.signed_out", request_id)

    async def _refuse_refresh(
        self, tx: Transaction, claims: RefreshClaims, request_id: str | None
    ) -> None:
        login = await repository.login(tx, claims.user_id, claims.login_id)
        if login is None or login["revoked_at"] or login["expires_at"] <= self.clock.now():
            raise SignInEnded()
        await self._end_login(
            tx, claims, "refresh token reused", "user.refresh_token_reused", request_id
        )
        tx.keep_on_error()
        raise RefreshTokenReused()

    async def _end_login(
        self,
        tx: Transaction,
        claims: RefreshClaims,
        reason: str,
        action: str,
        request_id: str | None,
    ) -> None:
        """Ends the sign-in, and says so in the tenant that it was last used for."""
        now = self.clock.now()
        if not await repository.end_login(tx, claims.user_id, claims.login_id, now, reason):
            return
        user = await repository.user_by_id(tx, claims.user_id)
        assert user is not None, "a sign-in goes with its user"
        await tx.set("app.tenant_id", str(claims.tenant_id))
        work = Work(tx, _member(user, claims.tenant_id), self.outbox, self.clock, request_id)
        await work.record(action, target=("login", claims.login_id))

    async def _choose_tenant(
        self, tx: Transaction, user_id: UUID, slug: str | None, last: TenantId | None = None
    ) -> asyncpg.Record:
        """The tenant by name; without one, the last, or else the first the user belongs to."""
        tenants = await repository.tenants_of(tx, user_id)
        if slug is not None:
            tenants = [tenant for tenant in tenants if tenant["slug"] == slug]
        if not tenants:
            raise NoTenant()
        return next((tenant for tenant in tenants if tenant["id"] == last), tenants[0])

    async def _begin_login(
        self,
        tx: Transaction,
        user: asyncpg.Record,
        tenant_id: TenantId,
        user_agent: str,
        request_id: str | None,
    ) -> TokenPair:
        user_id, login_id = UserId(user["id"]), LoginId(uuid7())
        await repository.insert_login(
            tx, user_id, login_id, user_agent, self.clock.now() + self.login_life
        )
        await tx.set("app.tenant_id", str(tenant_id))
        work = Work(tx, _member(user, tenant_id), self.outbox, self.clock, request_id)
        await work.record("user.signed_in", target=("login", login_id))
        return self._pair(user_id, tenant_id, login_id, generation=1)

    def _pair(
        self, user_id: UserId, tenant_id: TenantId, login_id: LoginId, generation: int
    ) -> TokenPair:
        return TokenPair(
            access_token=self.tokens.access(user_id, tenant_id, login_id),
            refresh_token=self.tokens.refresh(
                user_id, tenant_id, login_id, generation, self.clock.now() + self.login_life
            ),
            expires_in=int(self.tokens.access_life.total_seconds()),
            tenant_id=tenant_id,
        )


async def create_user(
    tx: Transaction, user_id: UserId, email: str, name: str, password: str
) -> None:
    try:
        await repository.insert_user(tx, user_id, email, name, await hash_password(password))
    except asyncpg.UniqueViolationError:
        raise EmailTaken() from None


def _member(user: asyncpg.Record, tenant_id: TenantId) -> Principal:
    """A person on the way in: named for the audit log, allowed nothing yet."""
    return Principal(
        kind=PrincipalKind.USER,
        id=str(user["id"]),
        name=user["name"],
        tenant_id=tenant_id,
        scopes=frozenset(),
        plan="free",
        user_id=user["id"],
    )


def _signed_in_user(work: Work) -> UserId:
    if work.principal.user_id is None:
        raise Forbidden("Only a person who has signed in can do this, not an API key.")
    return UserId(work.principal.user_id)


async def who_am_i(work: Work) -> WhoAmI:
    principal = work.principal
    tenant = await tenants.read(work)
    email: str | None = None
    of_user: list[TenantOfUser] = []
    if principal.user_id is not None:
        user = await repository.user_by_id(work.tx, principal.user_id)
        email = user["email"] if user else None
        of_user = [
            TenantOfUser(**row) for row in await repository.tenants_of(work.tx, principal.user_id)
        ]
    return WhoAmI(
        kind=principal.kind,
        id=principal.id,
        name=principal.name,
        email=email,
        role=principal.role,
        platform_admin=principal.platform_admin,
        scopes=sorted(principal.scopes),
        tenant_id=tenant.id,
        tenant_name=tenant.name,
        tenant_slug=tenant.slug,
        plan=tenant.plan,
        tenants=of_user,
    )


async def list_logins(work: Work) -> list[LoginRead]:
    rows = await repository.live_logins(work.tx, _signed_in_user(work), work.now())
    own = work.principal.login_id
    return [LoginRead(**row, current=row["id"] == own) for row in map(dict, rows)]


async def end_login(work: Work, login_id: UUID) -> None:
    user_id = _signed_in_user(work)
    if not await repository.end_login(work.tx, user_id, login_id, work.now(), "ended by the user"):
        raise NotFound()
    await work.record("login.ended", target=("login", login_id))


async def change_password(work: Work, body: PasswordChange) -> None:
    """Sets a new password and ends all other sign-ins."""
    user_id = _signed_in_user(work)
    user = await repository.user_by_id(work.tx, user_id)
    if user is None or not await verify_password(user["password_hash"], body.current_password):
        raise WrongCredentials("The current password is wrong.", hint="Check it and try again.")
    await repository.set_password(work.tx, user_id, await hash_password(body.new_password))
    await repository.end_other_logins(work.tx, user_id, work.principal.login_id, work.now())
    await work.record("user.password_changed", target=("user", user_id))
