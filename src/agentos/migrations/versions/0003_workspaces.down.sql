revoke update on storage_usage from agentos_platform;
revoke insert on discarded_objects from agentos_platform;
drop table workspace_snapshots;
drop table workspace_packs;
