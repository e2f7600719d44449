create index sessions_of_team on sessions (tenant_id, team_id, id) where team_id is not null;
