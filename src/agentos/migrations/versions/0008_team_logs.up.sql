-- Logs of teams --------------------------------------------------------------------------------

-- What a team lived through (`team`), and what its agent CLI wrote on its error stream (`agent`), in
-- the order of `id`. Whoever writes lines removes the oldest; only the newest 1,000 of a team stay.
create table team_logs (
    tenant_id uuid not null references tenants on delete cascade,
    team_id uuid not null,
    id uuid not null,
    at timestamptz not null,
    level text not null check (level in ('info', 'warning', 'error')),
    source text not null check (source in ('team', 'agent')),
    text text not null,
    primary key (tenant_id, team_id, id),
    foreign key (tenant_id, team_id) references teams (tenant_id, id) on delete cascade
);
call protect_tenant_table('team_logs', 'select, insert, delete', 'select, insert, delete');
