-- Workspaces -----------------------------------------------------------------------------------

-- Blobs in the object store that snapshots of workspaces are made of: contents and manifests. They
-- count as storage of the tenant.
create table workspace_packs (
    tenant_id uuid not null references tenants on delete cascade,
    id uuid not null,
    bytes bigint not null check (bytes >= 0),
    primary key (tenant_id, id)
);
-- Update is never done; a snapshot locks the packs it names, and that needs the right to it.
call protect_tenant_table('workspace_packs', 'select, insert, update', 'select, update, delete');

-- The files of a workspace at one moment.
create table workspace_snapshots (
    tenant_id uuid not null references tenants on delete cascade,
    id uuid not null,
    workspace_id uuid not null,
    -- The list of its files: from `manifest_offset` to the end of a pack; and the SHA-256 of it.
    manifest uuid not null,
    manifest_offset bigint not null check (manifest_offset >= 0),
    digest bytea not null,
    -- All that have to be there to restore it. No foreign key reaches into an array: `record`
    -- and the collection of garbage keep it true.
    packs uuid[] not null,
    files integer not null check (files >= 0),
    bytes bigint not null check (bytes >= 0),
    created_at timestamptz not null default now(),
    primary key (tenant_id, id)
);
create index workspace_snapshots_of on workspace_snapshots (tenant_id, workspace_id, id);
create index workspace_snapshots_packs on workspace_snapshots using gin (packs);
create index workspace_snapshots_age on workspace_snapshots (created_at);
call protect_tenant_table('workspace_snapshots', 'select, insert, delete', 'select, update, delete');

-- The collection of garbage hands packs to the sweeper, and takes them off the count.
grant insert on discarded_objects to agentos_platform;
grant update on storage_usage to agentos_platform;
