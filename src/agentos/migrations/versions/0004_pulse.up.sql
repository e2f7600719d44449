-- Workers --------------------------------------------------------------------------------------

-- The processes that run sessions. `seen_at` is the database's clock; `place` and `pid` let others
-- on the same machine see at once that one has died.
create table workers (
    id uuid primary key,
    place text not null,
    pid integer not null,
    pid_started bigint not null,
    capacity integer not null,
    draining boolean not null default false,
    started_at timestamptz not null default now(),
    seen_at timestamptz not null default now()
) with (fillfactor = 50);
grant select, insert, update, delete on workers to agentos_platform;

-- Sessions -------------------------------------------------------------------------------------

-- The state says how far a session is; queued_at whether it wants a worker; owner who works on it.
-- Every change by a worker is guarded by `fence`, which rises with every new owner.
create table sessions (
    tenant_id uuid not null references tenants on delete cascade,
    id uuid not null,
    state text not null check (state in ('CREATED', 'QUEUED', 'RUNNING', 'CHECKPOINT', 'GATE_CHECK',
        'COMPLETE', 'PAUSED', 'FAILED', 'ROLLBACK', 'ROLLED_BACK')),
    title text not null,
    config jsonb not null,
    priority smallint not null default 0,
    team_id uuid,
    -- The directory it works in; forks and sub-agents have their own.
    workspace_id uuid not null,
    created_by text not null,
    principal_kind text not null,
    principal_id text not null,
    created_at timestamptz not null,
    started_at timestamptz,
    finished_at timestamptz,
    updated_at timestamptz not null,

    queued_at timestamptz,
    owner uuid,
    fence bigint not null default 0,
    -- How often in a row a worker was lost over it.
    losses smallint not null default 0,
    running_since timestamptz,
    ran_ms bigint not null default 0 check (ran_ms >= 0),
    pause_requested boolean not null default false,
    waiting_for text check (waiting_for in ('pause', 'approval', 'children', 'budget', 'retry')),
    wake_at timestamptz,

    -- The newest step: the tip of the path that is in force.
    seq integer not null default 0,
    snapshot_id uuid,
    -- A call with effects outside that has begun and is not in the journal yet.
    doing jsonb,
    -- Tools approved for good in this session.
    allowed_tools text[] not null default '{}',
    turns integer not null default 0,

    result jsonb,
    error text,
    error_code text,

    parent_id uuid,
    parent_call text,
    forked_from uuid,
    forked_seq integer,
    chain_id uuid,
    chain_node text,
    primary key (tenant_id, id),
    foreign key (tenant_id, snapshot_id) references workspace_snapshots (tenant_id, id),
    check (owner is null or queued_at is null),
    check (owner is null or state in ('RUNNING', 'CHECKPOINT', 'GATE_CHECK', 'ROLLBACK'))
) with (fillfactor = 60);
create index sessions_queue on sessions (tenant_id, priority desc, queued_at, id) where queued_at is not null;
create index sessions_running on sessions (tenant_id) where owner is not null;
create index sessions_of_owner on sessions (owner) where owner is not null;
create index sessions_waking on sessions (wake_at) where wake_at is not null;
create index sessions_without_budget on sessions (tenant_id) where waiting_for = 'budget';
create index sessions_of_parent on sessions (tenant_id, parent_id) where parent_id is not null;
create index sessions_of_chain on sessions (tenant_id, chain_id) where chain_id is not null;
create index sessions_by_state on sessions (tenant_id, state, id);
create index sessions_finished on sessions (finished_at) where finished_at is not null;
create index sessions_by_snapshot on sessions (tenant_id, snapshot_id) where snapshot_id is not null;
call protect_tenant_table('sessions', 'select, insert, update', 'select, update, delete');

-- The journal. `parent` is the step before on the path; a rollback's parent is where it went back
-- to, so that following parents from the newest step gives the conversation in force, and nothing is lost.
create table steps (
    tenant_id uuid not null,
    session_id uuid not null,
    seq integer not null check (seq > 0),
    parent integer not null check (parent >= 0 and parent < seq),
    kind text not null check (kind in ('message', 'state', 'model', 'tool', 'checkpoint', 'gate',
        'rollback', 'compaction', 'approval')),
    name text not null,
    status text not null check (status in ('done', 'failed', 'uncertain')),
    -- The idempotency key: a step is journaled once under it.
    key text,
    -- Text, not binary JSON: what is read back is what was written, byte for byte.
    input json,
    output json,
    -- Objects that hold what is too large for a row.
    input_object uuid,
    output_object uuid,
    snapshot_id uuid,
    call_id uuid,
    input_tokens bigint not null default 0,
    output_tokens bigint not null default 0,
    cost_micros bigint,
    duration_ms integer not null default 0,
    fence bigint not null,
    at timestamptz not null,
    primary key (tenant_id, session_id, seq),
    foreign key (tenant_id, session_id) references sessions (tenant_id, id) on delete cascade,
    foreign key (tenant_id, snapshot_id) references workspace_snapshots (tenant_id, id)
);
create unique index steps_once on steps (tenant_id, session_id, key) where key is not null;
create index steps_by_snapshot on steps (tenant_id, snapshot_id) where snapshot_id is not null;
call protect_tenant_table('steps', 'select, insert', 'select, insert, delete');

create table checkpoints (
    tenant_id uuid not null,
    id uuid not null,
    session_id uuid not null,
    seq integer not null,
    name text not null,
    snapshot_id uuid,
    created_at timestamptz not null,
    primary key (tenant_id, id),
    foreign key (tenant_id, session_id) references sessions (tenant_id, id) on delete cascade,
    foreign key (tenant_id, snapshot_id) references workspace_snapshots (tenant_id, id)
);
create index checkpoints_of_session on checkpoints (tenant_id, session_id, seq);
create index checkpoints_by_snapshot on checkpoints (tenant_id, snapshot_id) where snapshot_id is not null;
call protect_tenant_table('checkpoints', 'select, insert', 'select, delete');

-- What waits for a person: a tool call, a gate, or a question of the agent.
create table approvals (
    tenant_id uuid not null,
    id uuid not null,
    session_id uuid not null,
    kind text not null check (kind in ('tool', 'gate', 'question')),
    -- What it is about within the session: the call's id, or the gate's name and try.
    key text not null,
    subject text not null,
    details jsonb not null,
    state text not null default 'waiting' check (state in ('waiting', 'approved', 'rejected', 'expired', 'withdrawn')),
    on_expiry text not null default 'reject' check (on_expiry in ('reject', 'approve', 'fail')),
    answer text,
    reason text,
    decided_by text,
    decided_at timestamptz,
    created_at timestamptz not null,
    expires_at timestamptz not null,
    primary key (tenant_id, id),
    unique (tenant_id, session_id, key),
    foreign key (tenant_id, session_id) references sessions (tenant_id, id) on delete cascade
);
create index approvals_waiting on approvals (tenant_id, id) where state = 'waiting';
create index approvals_expiring on approvals (expires_at) where state = 'waiting';
call protect_tenant_table('approvals', 'select, insert, update', 'select, update, delete');

-- Chains ---------------------------------------------------------------------------------------

create table chains (
    tenant_id uuid not null references tenants on delete cascade,
    id uuid not null,
    name text not null,
    definition jsonb not null,
    inputs jsonb not null,
    state text not null check (state in ('CREATED', 'RUNNING', 'COMPLETE', 'FAILED', 'CANCELLED')),
    -- Set by whatever may have changed what can run next; whoever advances the chain clears it.
    due_at timestamptz,
    output jsonb,
    error text,
    created_by text not null,
    principal_kind text not null,
    principal_id text not null,
    created_at timestamptz not null,
    started_at timestamptz,
    finished_at timestamptz,
    updated_at timestamptz not null,
    primary key (tenant_id, id)
) with (fillfactor = 80);
create index chains_due on chains (due_at) where due_at is not null;
create index chains_finished on chains (finished_at) where finished_at is not null;
call protect_tenant_table('chains', 'select, insert, update', 'select, update, delete');

-- One row a node, and one for each item of a node that fans out (item >= 0; the node itself is -1).
create table chain_nodes (
    tenant_id uuid not null,
    chain_id uuid not null,
    node text not null,
    item integer not null check (item >= -1),
    state text not null check (state in ('PENDING', 'RUNNING', 'COMPLETE', 'FAILED', 'SKIPPED', 'CANCELLED')),
    -- How often it was started; the newest session is the one that counts.
    tries smallint not null default 0,
    session_id uuid,
    input jsonb,
    output jsonb,
    error text,
    started_at timestamptz,
    finished_at timestamptz,
    primary key (tenant_id, chain_id, node, item),
    foreign key (tenant_id, chain_id) references chains (tenant_id, id) on delete cascade
);
call protect_tenant_table('chain_nodes', 'select, insert, update, delete', 'select, insert, update, delete');

-- Tools ----------------------------------------------------------------------------------------

-- What a tenant allows its agents, by tool, by pattern or by tier.
create table tool_policies (
    tenant_id uuid not null references tenants on delete cascade,
    id uuid not null,
    subject text not null,
    decision text not null check (decision in ('allow', 'ask', 'deny')),
    created_by text not null,
    updated_at timestamptz not null default now(),
    primary key (tenant_id, id),
    unique (tenant_id, subject)
);
call protect_tenant_table('tool_policies', 'select, insert, update, delete', 'select');

-- The key that `agentos up` prints may do everything; this adds what is new.
alter table api_keys no force row level security;
update api_keys
    set scopes = scopes || '{sessions:read,sessions:write,approvals:write,tools:read,tools:write}'
    where name = 'demo' and created_by = 'AgentOS' and not scopes @> '{sessions:read}';
alter table api_keys force row level security;

-- A process that was given no URL of the owner has to see that the schema is the one it needs.
grant select on alembic_version to agentos_runtime, agentos_platform;
