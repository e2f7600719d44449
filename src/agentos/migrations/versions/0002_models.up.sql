-- Models ---------------------------------------------------------------------------------------

-- A way to models that a tenant has connected. The key is in the vault, under secret_name.
create table model_providers (
    tenant_id uuid not null references tenants on delete cascade,
    id uuid not null,
    name text not null check (name ~ '^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$'),
    kind text not null,
    base_url text,
    secret_name text,
    requests_per_minute integer check (requests_per_minute > 0),
    created_by text not null,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    primary key (tenant_id, id),
    unique (tenant_id, name)
);
call protect_tenant_table('model_providers', 'select, insert, update, delete', 'select');

-- Where a call goes when its first choice fails: one fallback chain a tenant.
create table fallback_chains (
    tenant_id uuid primary key references tenants on delete cascade,
    targets text[] not null,
    fall_back_on text[] not null,
    updated_at timestamptz not null default now()
);
call protect_tenant_table('fallback_chains', 'select, insert, update, delete', 'select');

-- A tenant's own prices, in micro-dollars for a million tokens; they win over the catalogue's.
create table model_prices (
    tenant_id uuid not null references tenants on delete cascade,
    id uuid not null,
    provider text not null,
    model text not null,
    input bigint not null check (input >= 0),
    cache_read bigint not null check (cache_read >= 0),
    cache_write bigint not null check (cache_write >= 0),
    output bigint not null check (output >= 0),
    updated_at timestamptz not null default now(),
    primary key (tenant_id, id),
    unique (tenant_id, provider, model)
);
call protect_tenant_table('model_prices', 'select, insert, update, delete', 'select');

-- One row a finished model call: what was asked of whom, and what it took. An unknown price is
-- null, never zero. cost is what the provider charges, rated what AgentOS charges for it.
create table model_calls (
    tenant_id uuid not null references tenants on delete cascade,
    id uuid not null,
    at timestamptz not null,
    team_id uuid,
    session_id uuid,
    principal_kind text not null,
    principal_id text not null,
    face text not null,
    provider text not null,
    model text not null,
    asked_model text not null,
    outcome text not null check (outcome in ('answered', 'cancelled', 'failed')),
    error_class text,
    streamed boolean not null,
    estimated boolean not null,
    attempts smallint not null,
    input_tokens bigint not null,
    cache_read_tokens bigint not null,
    cache_write_tokens bigint not null,
    output_tokens bigint not null,
    reasoning_tokens bigint not null,
    cost_micros bigint check (cost_micros >= 0),
    rated_micros bigint check (rated_micros >= 0),
    duration_ms integer not null,
    first_byte_ms integer,
    primary key (tenant_id, id)
);
create index model_calls_of_session on model_calls (tenant_id, session_id, id) where session_id is not null;
call protect_tenant_table('model_calls', 'select, insert', 'select, insert');

-- The ledger -----------------------------------------------------------------------------------

-- A hard cap in micro-dollars on what a tenant (a month), a team (a month) or a session (in all)
-- may spend. The subject of a tenant's budget is the tenant itself.
create table budgets (
    tenant_id uuid not null references tenants on delete cascade,
    id uuid not null,
    scope text not null check (scope in ('tenant', 'team', 'session')),
    subject_id uuid not null,
    cap_micros bigint not null check (cap_micros >= 0),
    created_by text not null,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    primary key (tenant_id, id),
    unique (tenant_id, scope, subject_id),
    check (scope <> 'tenant' or subject_id = tenant_id)
);
call protect_tenant_table('budgets', 'select, insert, update, delete', 'select');

-- Balances, kept beside the entries they can be derived from. `held` is what the holds of all
-- processes add up to; period is the first day of the month, or 1970-01-01 for sessions.
create table accounts (
    tenant_id uuid not null references tenants on delete cascade,
    scope text not null check (scope in ('tenant', 'team', 'session')),
    subject_id uuid not null,
    period date not null,
    spent_micros bigint not null default 0 check (spent_micros >= 0),
    spent_tokens bigint not null default 0 check (spent_tokens >= 0),
    held_micros bigint not null default 0 check (held_micros >= 0),
    held_tokens bigint not null default 0 check (held_tokens >= 0),
    held_calls integer not null default 0 check (held_calls >= 0),
    warned_at timestamptz,
    exhausted_at timestamptz,
    primary key (tenant_id, scope, subject_id, period)
) with (fillfactor = 50);
call protect_tenant_table('accounts', 'select, insert, update', 'select, insert, update');

-- What one process has taken out of an account and hands out to its calls. An owner that died
-- stops renewing; its holds go back.
create table holds (
    tenant_id uuid not null references tenants on delete cascade,
    scope text not null,
    subject_id uuid not null,
    period date not null,
    owner uuid not null,
    micros bigint not null check (micros >= 0),
    tokens bigint not null check (tokens >= 0),
    calls integer not null check (calls >= 0),
    expires_at timestamptz not null,
    primary key (tenant_id, scope, subject_id, period, owner),
    foreign key (tenant_id, scope, subject_id, period)
        references accounts (tenant_id, scope, subject_id, period) on delete cascade
) with (fillfactor = 50);
create index holds_of_owner on holds (owner);
create index holds_by_expiry on holds (expires_at);
call protect_tenant_table('holds', 'select, insert, update, delete', 'select, insert, update, delete');

-- The chain of a call: reserve, then settle or release. The columns are changes: summed up over
-- all entries, held is what is still reserved and spent what was spent.
create table ledger_entries (
    tenant_id uuid not null references tenants on delete restrict,
    call_id uuid not null,
    kind text not null check (kind in ('reserve', 'settle', 'release')),
    at timestamptz not null,
    team_id uuid,
    session_id uuid,
    period date not null,
    held_micros bigint not null,
    held_tokens bigint not null,
    spent_micros bigint not null,
    spent_tokens bigint not null,
    reason text,
    primary key (tenant_id, call_id, kind),
    check (kind = 'settle' or (spent_micros = 0 and spent_tokens = 0)),
    check (case kind when 'reserve' then held_micros >= 0 else held_micros <= 0 end)
);
-- A chain ends once.
create unique index ledger_one_end on ledger_entries (tenant_id, call_id) where kind <> 'reserve';
call protect_tenant_table('ledger_entries', 'select, insert', 'select, insert');

create or replace function refuse_change() returns trigger language plpgsql as $$
begin
    raise exception '% is append-only', tg_table_name using errcode = 'insufficient_privilege';
end $$;
create trigger append_only before update or delete or truncate on ledger_entries
    for each statement execute function refuse_change();

-- Usage ----------------------------------------------------------------------------------------

-- Model calls summed up by day, so that a report reads days and not calls.
create table usage_days (
    tenant_id uuid not null references tenants on delete cascade,
    id uuid not null,
    day date not null,
    team_id uuid,
    session_id uuid,
    provider text not null,
    model text not null,
    calls bigint not null,
    failed_calls bigint not null,
    unpriced_calls bigint not null,
    input_tokens bigint not null,
    cache_read_tokens bigint not null,
    cache_write_tokens bigint not null,
    output_tokens bigint not null,
    reasoning_tokens bigint not null,
    cost_micros bigint not null,
    rated_micros bigint not null,
    primary key (tenant_id, id)
) with (fillfactor = 50);
create unique index usage_days_key
    on usage_days (tenant_id, day, provider, model, team_id, session_id) nulls not distinct;
create index usage_days_of_session on usage_days (tenant_id, session_id) where session_id is not null;
call protect_tenant_table('usage_days', 'select, insert, update', 'select, insert, update');

-- What is metered besides models: compute seconds, stored byte-hours, API calls.
create table meters (
    tenant_id uuid not null references tenants on delete cascade,
    day date not null,
    meter text not null check (meter in ('compute_seconds', 'storage_byte_hours', 'api_calls')),
    quantity bigint not null check (quantity >= 0),
    primary key (tenant_id, day, meter)
) with (fillfactor = 50);
call protect_tenant_table('meters', 'select, insert, update', 'select, insert, update');

-- The key that `agentos up` prints may do everything; this adds what is new. Owners do not see rows
-- of tenants, so the table is opened to them for this one statement.
alter table api_keys no force row level security;
update api_keys
    set scopes = scopes || '{models:use,models:read,models:write,usage:read,budgets:write}'
    where name = 'demo' and created_by = 'AgentOS' and not scopes @> '{models:use}';
alter table api_keys force row level security;
