-- Messages -------------------------------------------------------------------------------------

-- A message as it then is, and of its team what a keeper that is handed the message compares.
create type queued_message as (
    message team_messages, fence bigint, generation integer, version integer, answer_seconds integer
);

-- Puts a message at the end of a team's queue, with its events and its audit row. It is running at
-- once if a keeper has an agent for it and no other message is before it. `only_kept`: a team without
-- such a keeper is left as it is, and nothing is returned, as if it were not there.
--
-- Its statement can be the whole transaction, which is why it sets the tenant; the caller's rights are
-- what counts. In a transaction, a native team is locked after its session, so before this.
create function queue_message(
    tenant uuid, team uuid, only_kept boolean, message_id uuid, source text, run_id uuid, body text,
    attachments jsonb, author text, actor_kind text, actor_id text, actor_name text,
    audit_id uuid, request_id text, queued_id uuid, queued jsonb, started_id uuid, started jsonb,
    at timestamptz
) returns setof queued_message
language plpgsql as $$
declare
    place record;
    queued_message queued_message;
    begins boolean;
begin
    perform set_config('app.tenant_id', tenant::text, true);
    select t.provider <> 'native' and t.owner is not null and t.deployed and t.status = 'running'
            as kept, t.last_position + 1 as position, t.fence, t.generation, t.version,
        t.answer_seconds
    into place from teams t where t.tenant_id = tenant and t.id = team for update;
    if not found or only_kept and not place.kept then
        return;
    end if;
    update teams t set last_position = place.position where t.tenant_id = tenant and t.id = team;
    -- Not before: it sees what was committed while this waited for the team.
    begins := place.kept and not exists (
        select from team_messages o where o.tenant_id = tenant and o.team_id = team
            and o.state in ('queued', 'running'));
    insert into team_messages as m (tenant_id, team_id, id, position, source, run_id, author,
        principal_kind, principal_id, text, attachments, created_at, state, attempt, started_at)
    values (tenant, team, message_id, place.position, source, run_id, author, actor_kind,
        actor_id, body, attachments, at, case when begins then 'running' else 'queued' end,
        begins::integer, case when begins then at end)
    returning m into queued_message.message;
    insert into audit_log (tenant_id, id, at, actor_kind, actor_id, actor_name, action, target_kind,
        target_id, after, request_id)
    values (tenant, audit_id, at, actor_kind, actor_id, actor_name, 'message.sent', 'message',
        message_id, jsonb_build_object('team_id', team, 'position', place.position), request_id);
    -- After the change: the lock on the team is what puts its events in order.
    insert into outbox (tenant_id, id, type, data, at)
    values (tenant, queued_id, 'message.queued',
        queued || jsonb_build_object('position', place.position), at);
    if begins then
        insert into outbox (tenant_id, id, type, data, at)
        values (tenant, started_id, 'message.started', started, at);
    end if;
    queued_message.fence := place.fence;
    queued_message.generation := place.generation;
    queued_message.version := place.version;
    queued_message.answer_seconds := place.answer_seconds;
    return next queued_message;
end $$;
revoke execute on function queue_message from public;
grant execute on function queue_message to agentos_runtime;
