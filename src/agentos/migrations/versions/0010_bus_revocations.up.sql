-- Revocations ----------------------------------------------------------------------------------

-- Teams whose credentials on the bus are void: all that were issued up to `until`, after which none of
-- them can be valid by itself and the row goes. Written with the deletion of the team, so that a tenant
-- can revoke its own teams only; workers tell the bus.
create table bus_revocations (
    tenant_id uuid not null references tenants on delete cascade,
    team_id uuid not null,
    until timestamptz not null,
    primary key (tenant_id, team_id)
);
create index bus_revocations_by_time on bus_revocations (until);
call protect_tenant_table('bus_revocations', 'insert', 'select, delete');
