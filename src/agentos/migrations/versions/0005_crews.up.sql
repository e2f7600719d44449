-- Teams ----------------------------------------------------------------------------------------

-- A leader and its workers. `deployed` is what people want, `status` what is so, and `reason` why.
-- A team of a CLI provider is kept by one worker at a time, its owner; `fence` rises with each.
-- A native team has no owner: its conversation is the session `session_id`, continued by messages.
create table teams (
    tenant_id uuid not null references tenants on delete cascade,
    id uuid not null,
    name text not null,
    description text not null default '',
    provider text not null check (provider in ('native', 'claude-code', 'opencode', 'acp')),
    -- Where a CLI provider runs; a native team runs in the worker.
    runtime text check (runtime in ('local', 'docker')),
    model text not null default 'auto',
    -- What an ACP agent is started with.
    command text[],
    skills jsonb not null default '[]',
    mcp_servers jsonb not null default '[]',
    allowed_hosts text[] not null default '{}',
    -- How long one answer may take.
    answer_seconds integer not null default 1800 check (answer_seconds > 0),
    -- Rises with each change of the team or its agents.
    version integer not null default 1,

    deployed boolean not null default false,
    status text not null default 'stopped' check (status in ('stopped', 'starting', 'running',
        'degraded', 'crash_loop', 'repairing', 'error')),
    reason text,
    status_at timestamptz not null,
    -- The version that the running agent works by.
    applied_version integer not null default 0,
    -- Rises when people ask for a restart.
    generation integer not null default 0,
    owner uuid,
    fence bigint not null default 0,
    crashes timestamptz[] not null default '{}',
    repairs smallint not null default 0,
    mcp_status jsonb not null default '{}',

    -- The conversation: of a native team a session, of a CLI provider what it is resumed by.
    session_id uuid,
    conversation text,
    snapshot_id uuid,
    last_position bigint not null default 0,

    created_by text not null,
    principal_kind text not null,
    principal_id text not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    primary key (tenant_id, id),
    check (provider = 'native' or runtime is not null),
    check ((provider = 'acp') = (command is not null)),
    foreign key (tenant_id, session_id) references sessions (tenant_id, id)
        on delete set null (session_id),
    foreign key (tenant_id, snapshot_id) references workspace_snapshots (tenant_id, id)
) with (fillfactor = 80);
create unique index teams_by_name on teams (tenant_id, lower(name));
create index teams_to_keep on teams (status_at) where provider <> 'native' and (deployed or status <> 'stopped');
create index teams_of_owner on teams (owner) where owner is not null;
create index teams_by_session on teams (tenant_id, session_id) where session_id is not null;
create index teams_by_snapshot on teams (tenant_id, snapshot_id) where snapshot_id is not null;
call protect_tenant_table('teams', 'select, insert, update, delete', 'select, update');

create table team_agents (
    tenant_id uuid not null,
    team_id uuid not null,
    id uuid not null,
    leader boolean not null,
    -- What it is called by the others; part of a file name.
    name text not null,
    role text not null default '',
    instructions text not null default '',
    -- Null: the team's.
    model text,
    skills text[] not null default '{}',
    permissions jsonb not null default '{}',
    position smallint not null,
    primary key (tenant_id, id),
    unique (tenant_id, team_id, name),
    foreign key (tenant_id, team_id) references teams (tenant_id, id) on delete cascade
);
create unique index team_agents_one_leader on team_agents (tenant_id, team_id) where leader;
call protect_tenant_table('team_agents', 'select, insert, update, delete', 'select');

-- Runs, before messages, which name the one they belong to --------------------------------------

create table schedules (
    tenant_id uuid not null references tenants on delete cascade,
    id uuid not null,
    name text not null,
    -- What it starts: a message to a team, or a session.
    team_id uuid,
    prompt text,
    session jsonb,
    kind text not null check (kind in ('cron', 'interval', 'once')),
    cron text,
    timezone text not null default 'UTC',
    every_seconds integer check (every_seconds > 0),
    -- When it is to happen, or where the interval begins.
    at timestamptz,
    -- What becomes of runs whose time has passed while nobody was there to start them.
    missed text not null default 'once' check (missed in ('skip', 'once', 'all')),
    enabled boolean not null default true,
    -- Null: there is none to come.
    next_at timestamptz,
    created_by text not null,
    principal_kind text not null,
    principal_id text not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    primary key (tenant_id, id),
    check ((team_id is null) <> (session is null)),
    check ((team_id is null) = (prompt is null)),
    foreign key (tenant_id, team_id) references teams (tenant_id, id) on delete cascade
);
create unique index schedules_by_name on schedules (tenant_id, lower(name));
create index schedules_due on schedules (next_at) where enabled and next_at is not null;
create index schedules_of_team on schedules (tenant_id, team_id) where team_id is not null;
call protect_tenant_table('schedules', 'select, insert, update, delete', 'select, update');

create table webhooks (
    tenant_id uuid not null references tenants on delete cascade,
    id uuid not null,
    name text not null,
    team_id uuid,
    -- A template: {{variables}} come from the body of the request.
    prompt text,
    session jsonb,
    token_hash bytea not null,
    -- The last characters of the token, to know it by.
    token_hint text not null,
    enabled boolean not null default true,
    -- Runs of it that may be unfinished at once; more are refused with 429.
    max_unfinished integer not null default 20 check (max_unfinished > 0),
    used_at timestamptz,
    created_by text not null,
    principal_kind text not null,
    principal_id text not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    primary key (tenant_id, id),
    check ((team_id is null) <> (session is null)),
    check ((team_id is null) = (prompt is null)),
    foreign key (tenant_id, team_id) references teams (tenant_id, id) on delete cascade
);
create unique index webhooks_by_name on webhooks (tenant_id, lower(name));
create index webhooks_of_team on webhooks (tenant_id, team_id) where team_id is not null;
call protect_tenant_table('webhooks', 'select, insert, update, delete', 'select');

-- One firing of a schedule or a webhook, and what came of it.
create table runs (
    tenant_id uuid not null references tenants on delete cascade,
    id uuid not null,
    schedule_id uuid,
    webhook_id uuid,
    -- The moment it was meant for; of a schedule, each such moment has one run.
    due_at timestamptz not null,
    -- Somebody asked for it by hand.
    manual boolean not null default false,
    state text not null check (state in ('queued', 'running', 'succeeded', 'failed', 'cancelled',
        'uncertain', 'skipped')),
    prompt text,
    session jsonb,
    message_id uuid,
    session_id uuid,
    result text,
    error text,
    error_code text,
    created_at timestamptz not null,
    started_at timestamptz,
    finished_at timestamptz,
    primary key (tenant_id, id),
    check ((schedule_id is null) <> (webhook_id is null)),
    foreign key (tenant_id, schedule_id) references schedules (tenant_id, id) on delete cascade,
    foreign key (tenant_id, webhook_id) references webhooks (tenant_id, id) on delete cascade
);
create unique index runs_once on runs (tenant_id, schedule_id, due_at)
    where schedule_id is not null and not manual;
create index runs_of_schedule on runs (tenant_id, schedule_id, id) where schedule_id is not null;
create index runs_of_webhook on runs (tenant_id, webhook_id, id) where webhook_id is not null;
create index runs_to_start on runs (created_at, id) where state = 'queued';
create index runs_going on runs (tenant_id, id) where state = 'running';
create index runs_by_session on runs (tenant_id, session_id) where session_id is not null;
create index runs_finished on runs (finished_at) where finished_at is not null;
call protect_tenant_table('runs', 'select, insert, update, delete', 'select, insert, update, delete');

-- An HTTP call after a run of a schedule or webhook.
create table post_actions (
    tenant_id uuid not null references tenants on delete cascade,
    id uuid not null,
    schedule_id uuid,
    webhook_id uuid,
    name text not null,
    -- Which runs it follows.
    after text not null check (after in ('success', 'failure', 'any')),
    method text not null check (method in ('POST', 'PUT', 'PATCH', 'GET', 'DELETE')),
    url text not null,
    headers jsonb not null default '{}',
    -- A template: {{variables}} tell of the run.
    body text,
    auth jsonb not null default '{"kind": "none"}',
    max_attempts smallint not null default 5 check (max_attempts between 1 and 20),
    enabled boolean not null default true,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    primary key (tenant_id, id),
    check ((schedule_id is null) <> (webhook_id is null)),
    foreign key (tenant_id, schedule_id) references schedules (tenant_id, id) on delete cascade,
    foreign key (tenant_id, webhook_id) references webhooks (tenant_id, id) on delete cascade
);
create index post_actions_of_schedule on post_actions (tenant_id, schedule_id) where schedule_id is not null;
create index post_actions_of_webhook on post_actions (tenant_id, webhook_id) where webhook_id is not null;
call protect_tenant_table('post_actions', 'select, insert, update, delete', 'select');

create table deliveries (
    tenant_id uuid not null,
    id uuid not null,
    post_action_id uuid not null,
    run_id uuid not null,
    state text not null default 'waiting' check (state in ('waiting', 'delivered', 'failed')),
    attempts smallint not null default 0,
    next_at timestamptz,
    -- Who makes the call now believes so until then.
    taken_until timestamptz,
    status integer,
    error text,
    created_at timestamptz not null,
    finished_at timestamptz,
    primary key (tenant_id, id),
    unique (tenant_id, post_action_id, run_id),
    foreign key (tenant_id, post_action_id) references post_actions (tenant_id, id) on delete cascade,
    foreign key (tenant_id, run_id) references runs (tenant_id, id) on delete cascade
);
create index deliveries_due on deliveries (next_at) where state = 'waiting';
create index deliveries_of_run on deliveries (tenant_id, run_id);
call protect_tenant_table('deliveries', 'select, insert, update', 'select, insert, update, delete');

-- Messages -------------------------------------------------------------------------------------

-- What a team was asked, in the order of `position`, and its answer.
create table team_messages (
    tenant_id uuid not null,
    team_id uuid not null,
    id uuid not null,
    position bigint not null,
    source text not null check (source in ('chat', 'schedule', 'webhook')),
    run_id uuid,
    author text not null,
    principal_kind text not null,
    principal_id text not null,
    text text not null,
    attachments jsonb not null default '[]',
    state text not null check (state in ('queued', 'running', 'answered', 'failed', 'cancelled',
        'uncertain')),
    -- How often an agent was given it: more than once after a crash.
    attempt smallint not null default 0,
    -- Somebody wants it stopped.
    cancel_requested boolean not null default false,
    answer text,
    error text,
    error_code text,
    -- What the agents did: tools, workers.
    activity jsonb not null default '[]',
    input_tokens bigint not null default 0,
    output_tokens bigint not null default 0,
    cost_micros bigint not null default 0,
    session_id uuid,
    created_at timestamptz not null,
    started_at timestamptz,
    finished_at timestamptz,
    primary key (tenant_id, id),
    unique (tenant_id, team_id, position),
    foreign key (tenant_id, team_id) references teams (tenant_id, id) on delete cascade
);
create index team_messages_open on team_messages (tenant_id, team_id, position)
    where state in ('queued', 'running');
create index team_messages_by_session on team_messages (tenant_id, session_id)
    where session_id is not null and state = 'running';
create index team_messages_by_run on team_messages (tenant_id, run_id) where run_id is not null;
call protect_tenant_table('team_messages', 'select, insert, update, delete', 'select, update, delete');

-- Approvals of a team's agents -------------------------------------------------------------------

alter table approvals alter session_id drop not null;
-- The session used to lead to the tenant.
alter table approvals add constraint approvals_tenant foreign key (tenant_id) references tenants on delete cascade;
alter table approvals add team_id uuid;
alter table approvals add message_id uuid;
alter table approvals add check ((session_id is null) <> (message_id is null));
alter table approvals add check ((team_id is null) = (message_id is null));
alter table approvals add foreign key (tenant_id, team_id) references teams (tenant_id, id) on delete cascade;
alter table approvals add foreign key (tenant_id, message_id) references team_messages (tenant_id, id) on delete cascade;
create unique index approvals_of_message on approvals (tenant_id, message_id, key) where message_id is not null;

-- The key that `agentos up` prints may do everything; this adds what is new.
alter table api_keys no force row level security;
update api_keys
    set scopes = scopes || '{teams:read,teams:write,messages:read,messages:write,schedules:read,schedules:write,webhooks:read,webhooks:write}'
    where name = 'demo' and created_by = 'AgentOS' and not scopes @> '{teams:read}';
alter table api_keys force row level security;
