-- Who is asking. Set per transaction with set_config(…, true); unset means nobody, which sees nothing.
create function app_tenant() returns uuid language sql stable parallel safe
    as $$ select nullif(current_setting('app.tenant_id', true), '')::uuid $$;
create function app_user() returns uuid language sql stable parallel safe
    as $$ select nullif(current_setting('app.user_id', true), '')::uuid $$;
create function app_email() returns text language sql stable parallel safe
    as $$ select nullif(current_setting('app.email', true), '') $$;

-- Every tenant table goes through here, so that none can have half of the protection. The sub-select
-- around app_tenant() makes it one evaluation a query instead of one a row.
create procedure protect_tenant_table(t regclass, runtime_rights text, platform_rights text)
language plpgsql as $$
begin
    execute format('alter table %s enable row level security', t);
    execute format('alter table %s force row level security', t);
    execute format('create policy tenant on %s to agentos_runtime
        using (tenant_id = (select app_tenant())) with check (tenant_id = (select app_tenant()))', t);
    execute format('grant %s on %s to agentos_runtime', runtime_rights, t);
    if platform_rights <> '' then
        execute format('create policy platform on %s to agentos_platform using (true) with check (true)', t);
        execute format('grant %s on %s to agentos_platform', platform_rights, t);
    end if;
end $$;

-- Tenants and people ---------------------------------------------------------------------------

create table tenants (
    id uuid primary key,
    name text not null,
    -- A slug becomes a subdomain, so it has to be unique over all tenants: a taken one says so.
    slug text not null unique check (slug ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'),
    plan text not null default 'free' check (plan in ('free', 'pro', 'enterprise')),
    limits jsonb not null default '{}',
    settings jsonb not null default '{}',
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now()
);

create table users (
    id uuid primary key,
    email text not null unique check (email = lower(email)),
    name text not null,
    password_hash text not null,
    platform_admin boolean not null default false,
    created_at timestamptz not null default now()
);

create table members (
    tenant_id uuid not null references tenants on delete cascade,
    user_id uuid not null references users on delete cascade,
    role text not null check (role in ('owner', 'admin', 'member')),
    created_at timestamptz not null default now(),
    primary key (tenant_id, user_id)
);
create index members_of_user on members (user_id);

create table invitations (
    tenant_id uuid not null references tenants on delete cascade,
    id uuid not null,
    email text not null check (email = lower(email)),
    role text not null check (role in ('owner', 'admin', 'member')),
    token_hash bytea not null,
    invited_by text not null,
    created_at timestamptz not null default now(),
    expires_at timestamptz not null,
    primary key (tenant_id, id),
    unique (tenant_id, email)
);

create table api_keys (
    tenant_id uuid not null references tenants on delete cascade,
    id uuid not null,
    name text not null,
    last_four text not null,
    token_hash bytea not null,
    scopes text[] not null,
    created_by text not null,
    created_at timestamptz not null default now(),
    expires_at timestamptz,
    last_used_at timestamptz,
    revoked_at timestamptz,
    primary key (tenant_id, id),
    unique (tenant_id, token_hash)
);

-- One row a sign-in. The refresh token carries the generation it was issued as; presenting an
-- older one means that a copy is about, and ends the sign-in.
create table logins (
    user_id uuid not null references users on delete cascade,
    id uuid not null,
    generation integer not null default 1,
    user_agent text not null default '',
    created_at timestamptz not null default now(),
    last_used_at timestamptz not null default now(),
    expires_at timestamptz not null,
    revoked_at timestamptz,
    revoked_reason text,
    primary key (user_id, id)
);

-- A person sees their own row, the one they sign in to, and those of their fellow members.
alter table users enable row level security;
alter table users force row level security;
create policy users_read on users for select to agentos_runtime using (
    id = (select app_user())
    or email = (select app_email())
    or exists (select from members m where m.user_id = users.id and m.tenant_id = (select app_tenant())));
create policy users_insert on users for insert to agentos_runtime
    with check (id = (select app_user()) and email = (select app_email()) and not platform_admin);
create policy users_update on users for update to agentos_runtime
    using (id = (select app_user())) with check (id = (select app_user()));
create policy platform on users to agentos_platform using (true) with check (true);
-- Not platform_admin: only the platform role can make somebody a platform admin.
grant select, insert, update (name, password_hash) on users to agentos_runtime;
grant select, insert, update on users to agentos_platform;

alter table tenants enable row level security;
alter table tenants force row level security;
create policy tenants_read on tenants for select to agentos_runtime using (
    id = (select app_tenant())
    or exists (select from members m where m.tenant_id = tenants.id and m.user_id = (select app_user())));
create policy tenants_insert on tenants for insert to agentos_runtime
    with check (id = (select app_tenant()) and plan = 'free');
create policy tenants_update on tenants for update to agentos_runtime
    using (id = (select app_tenant())) with check (id = (select app_tenant()));
create policy platform on tenants to agentos_platform using (true) with check (true);
-- Not plan or limits: a tenant cannot raise its own.
grant select, insert, update (name, slug, settings, updated_at) on tenants to agentos_runtime;
grant select, insert, update on tenants to agentos_platform;

alter table logins enable row level security;
alter table logins force row level security;
create policy own on logins to agentos_runtime
    using (user_id = (select app_user())) with check (user_id = (select app_user()));
create policy platform on logins to agentos_platform using (true) with check (true);
grant select, insert, update on logins to agentos_runtime;
grant select, update, delete on logins to agentos_platform;

call protect_tenant_table('members', 'select, insert, update, delete', 'select, insert, update, delete');
-- A person may list the tenants they belong to before choosing one.
create policy own on members for select to agentos_runtime using (user_id = (select app_user()));
call protect_tenant_table('invitations', 'select, insert, update, delete', 'select, insert, update, delete');
call protect_tenant_table('api_keys', 'select, insert, update', 'select, insert');

-- Vault ----------------------------------------------------------------------------------------

create table vault_keys (
    tenant_id uuid not null references tenants on delete cascade,
    version integer not null,
    kek_id text not null,
    wrapped bytea not null,
    created_at timestamptz not null default now(),
    primary key (tenant_id, version)
);
create table vault_secrets (
    tenant_id uuid not null references tenants on delete cascade,
    id uuid not null,
    name text not null,
    version integer not null,
    key_version integer not null,
    ciphertext bytea not null,
    last_four text not null,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    primary key (tenant_id, id),
    unique (tenant_id, name),
    foreign key (tenant_id, key_version) references vault_keys (tenant_id, version)
);
create index vault_secrets_by_key on vault_secrets (tenant_id, key_version);
call protect_tenant_table('vault_keys', 'select, insert, delete', 'select, update');
call protect_tenant_table('vault_secrets', 'select, insert, update, delete', '');

-- Audit ----------------------------------------------------------------------------------------

create table audit_log (
    tenant_id uuid not null references tenants on delete restrict,
    id uuid not null,
    at timestamptz not null,
    actor_kind text not null,
    actor_id text not null,
    actor_name text not null,
    action text not null,
    target_kind text not null,
    target_id text not null,
    before jsonb,
    after jsonb,
    request_id text,
    primary key (tenant_id, id)
);
create index audit_by_action on audit_log (tenant_id, action, id);
create index audit_by_target on audit_log (tenant_id, target_kind, target_id, id);
create index audit_by_actor on audit_log (tenant_id, actor_id, id);
create index audit_by_request on audit_log (tenant_id, request_id);
call protect_tenant_table('audit_log', 'select, insert', 'select, insert');

-- What the platform role did across tenants, or to no tenant in particular.
create table platform_audit_log (
    id uuid primary key,
    at timestamptz not null,
    actor_id text not null,
    actor_name text not null,
    action text not null,
    details jsonb not null,
    request_id text
);
grant select, insert on platform_audit_log to agentos_platform;

create function refuse_change() returns trigger language plpgsql as $$
begin
    raise exception 'the audit log is append-only' using errcode = 'insufficient_privilege';
end $$;
create trigger append_only before update or delete or truncate on audit_log
    for each statement execute function refuse_change();
create trigger append_only before update or delete or truncate on platform_audit_log
    for each statement execute function refuse_change();

-- Events ---------------------------------------------------------------------------------------

-- Written in the causing transaction, moved to history by the relay. No sequence is given here:
-- a counter per tenant would make every writer of a tenant wait for the one before it.
create table outbox (
    tenant_id uuid not null references tenants on delete cascade,
    position bigint generated always as identity,
    id uuid not null,
    type text not null,
    data jsonb not null,
    at timestamptz not null,
    primary key (tenant_id, position)
);
create index outbox_in_order on outbox (position);
call protect_tenant_table('outbox', 'insert', 'select, insert, delete');

-- History. `seq` counts per tenant without gaps; `position` is the order over all tenants in which
-- the relay, their only writer, publishes them.
create table events (
    tenant_id uuid not null references tenants on delete cascade,
    seq bigint not null,
    position bigint generated always as identity,
    id uuid not null,
    type text not null,
    data jsonb not null,
    at timestamptz not null,
    primary key (tenant_id, seq)
);
create unique index events_in_order on events (position);
create index events_by_age on events using brin (at);
call protect_tenant_table('events', 'select', 'select, insert, delete');

create table event_counters (
    tenant_id uuid primary key references tenants on delete cascade,
    last_seq bigint not null
);
call protect_tenant_table('event_counters', 'select', 'select, insert, update');

create table relay_cursor (
    only_row boolean primary key default true check (only_row),
    published bigint not null
);
insert into relay_cursor values (true, 0);
grant select, update on relay_cursor to agentos_platform;

-- The edge -------------------------------------------------------------------------------------

create table idempotency_keys (
    tenant_id uuid not null references tenants on delete cascade,
    key bytea not null,
    fingerprint bytea not null,
    status integer,
    response bytea,
    created_at timestamptz not null,
    primary key (tenant_id, key)
);
create index idempotency_by_age on idempotency_keys (created_at);
call protect_tenant_table('idempotency_keys', 'select, insert, update', 'select, insert, update, delete');

create table socket_tickets (
    tenant_id uuid not null references tenants on delete cascade,
    token_hash bytea not null,
    credential bytea not null,
    expires_at timestamptz not null,
    primary key (tenant_id, token_hash)
);
call protect_tenant_table('socket_tickets', 'select, insert, delete', 'select, delete');

-- Token buckets, shared by all processes. Unlogged: losing them in a crash only fills them up.
create unlogged table rate_buckets (
    key text primary key,
    tokens double precision not null,
    at timestamptz not null
) with (fillfactor = 50);
grant select, delete on rate_buckets to agentos_platform;

-- Takes up to `want` tokens; says how many it got and how many are left. The runtime role can do
-- nothing else with the buckets.
create function take_tokens(bucket text, want integer, capacity double precision, per_second double precision)
returns table (granted integer, remaining double precision)
language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
declare
    b rate_buckets;
    present timestamptz := clock_timestamp();
begin
    insert into rate_buckets values (bucket, capacity, present) on conflict (key) do nothing;
    select * into b from rate_buckets where key = bucket for update;
    remaining := least(capacity, b.tokens + greatest(0, extract(epoch from present - b.at)) * per_second);
    granted := least(want, floor(remaining))::integer;
    remaining := remaining - granted;
    update rate_buckets set tokens = remaining, at = present where key = bucket;
    return next;
end $$;
revoke execute on function take_tokens from public;
grant execute on function take_tokens to agentos_runtime;

-- Objects --------------------------------------------------------------------------------------

create table objects (
    tenant_id uuid not null references tenants on delete cascade,
    id uuid not null,
    -- "C", so that a prefix is a range of the index.
    key text collate "C" not null,
    size bigint not null check (size >= 0),
    content_type text not null,
    sha256 bytea not null,
    created_at timestamptz not null default now(),
    primary key (tenant_id, id),
    unique (tenant_id, key)
);
call protect_tenant_table('objects', 'select, insert, update, delete', 'select');

create table storage_usage (
    tenant_id uuid primary key references tenants on delete cascade,
    bytes bigint not null check (bytes >= 0),
    objects bigint not null check (objects >= 0)
);
call protect_tenant_table('storage_usage', 'select, insert, update', 'select');

-- Bytes in the object store that no row points to any more, removed by the sweeper.
create table discarded_objects (
    tenant_id uuid not null references tenants on delete cascade,
    id uuid not null,
    discarded_at timestamptz not null default now(),
    primary key (tenant_id, id)
);
call protect_tenant_table('discarded_objects', 'select, insert, delete', 'select, delete');
