delete from approvals where session_id is null;
alter table approvals drop constraint approvals_tenant;
alter table approvals drop column message_id, drop column team_id;
alter table approvals alter session_id set not null;
drop table team_messages, deliveries, post_actions, runs, webhooks, schedules, team_agents, teams;
