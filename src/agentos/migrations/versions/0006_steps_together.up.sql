-- What a worker writes -------------------------------------------------------------------------

-- Functions, so that a step is one round trip and one transaction: the statement is. They run as
-- whoever calls them, and row-level security sees the tenant that they set first.

create type settled_call as (
    call_id uuid, team_id uuid, session_id uuid, period date, settled_at timestamptz,
    held_micros bigint, held_tokens bigint, day_id uuid, day date, rated_micros bigint,
    -- The row of model_calls.
    at timestamptz, principal_kind text, principal_id text, face text, provider text, model text,
    asked_model text, outcome text, error_class text, streamed boolean, estimated boolean,
    attempts smallint, input_tokens bigint, cache_read_tokens bigint, cache_write_tokens bigint,
    output_tokens bigint, reasoning_tokens bigint, cost_micros bigint, duration_ms integer,
    first_byte_ms integer,
    -- Who took room for it, and what goes off their holds.
    owner uuid, tenant_micros bigint, tenant_tokens bigint, team_micros bigint, session_micros bigint
);
-- An account that has to be looked at: nearly spent, or (without a cap) with too small a hold.
create type account_in_question as (
    tenant_id uuid, scope text, subject_id uuid, period date, spent_micros bigint, cap_micros bigint
);

-- Writes a settlement and all it moves; one that is there already moves nothing again. Locks are
-- taken in the same order as everywhere: the entry, accounts with the tenant's first, days, holds.
create function settle_call(tenant uuid, c settled_call) returns setof account_in_question
language plpgsql as $$
declare
    micros bigint := coalesce(c.cost_micros, 0);
    tokens bigint := c.input_tokens + c.output_tokens;
begin
    insert into ledger_entries (tenant_id, call_id, kind, at, team_id, session_id, period,
        held_micros, held_tokens, spent_micros, spent_tokens)
    values (tenant, c.call_id, 'settle', c.settled_at, c.team_id, c.session_id, c.period,
        c.held_micros, c.held_tokens, micros, tokens)
    on conflict do nothing;
    if not found then
        return;
    end if;
    insert into model_calls (tenant_id, id, team_id, session_id, rated_micros, at, principal_kind,
        principal_id, face, provider, model, asked_model, outcome, error_class, streamed, estimated,
        attempts, input_tokens, cache_read_tokens, cache_write_tokens, output_tokens,
        reasoning_tokens, cost_micros, duration_ms, first_byte_ms)
    values (tenant, c.call_id, c.team_id, c.session_id, c.rated_micros, c.at, c.principal_kind,
        c.principal_id, c.face, c.provider, c.model, c.asked_model, c.outcome, c.error_class,
        c.streamed, c.estimated, c.attempts, c.input_tokens, c.cache_read_tokens,
        c.cache_write_tokens, c.output_tokens, c.reasoning_tokens, c.cost_micros, c.duration_ms,
        c.first_byte_ms)
    on conflict do nothing;
    return query with moved as (
        insert into accounts as a (tenant_id, scope, subject_id, period,
            spent_micros, spent_tokens, held_micros, held_tokens)
        select tenant, k.scope, k.subject_id, k.period, micros, tokens, k.kept_micros, k.kept_tokens
        from (values ('tenant', tenant, c.period, c.tenant_micros, c.tenant_tokens),
                     ('team', c.team_id, c.period, c.team_micros, 0),
                     ('session', c.session_id, date '1970-01-01', c.session_micros, 0))
            as k (scope, subject_id, period, kept_micros, kept_tokens)
        where k.subject_id is not null
        order by k.scope desc
        on conflict (tenant_id, scope, subject_id, period) do update
        set spent_micros = a.spent_micros + excluded.spent_micros,
            spent_tokens = a.spent_tokens + excluded.spent_tokens,
            held_micros = greatest(a.held_micros - excluded.held_micros, 0),
            held_tokens = greatest(a.held_tokens - excluded.held_tokens, 0)
        returning a.tenant_id, a.scope, a.subject_id, a.period, a.spent_micros, a.warned_at)
    select m.tenant_id, m.scope, m.subject_id, m.period, m.spent_micros, b.cap_micros
    from moved m join budgets b using (tenant_id, scope, subject_id)
    where m.warned_at is null and m.spent_micros > 0
      and m.spent_micros::numeric * 5 >= b.cap_micros::numeric * 4;
    insert into usage_days as u (id, tenant_id, day, provider, model, team_id, session_id, calls,
        failed_calls, unpriced_calls, input_tokens, cache_read_tokens, cache_write_tokens,
        output_tokens, reasoning_tokens, cost_micros, rated_micros)
    values (c.day_id, tenant, c.day, c.provider, c.model, c.team_id, c.session_id, 1,
        (c.outcome = 'failed')::int, (c.cost_micros is null)::int, c.input_tokens,
        c.cache_read_tokens, c.cache_write_tokens, c.output_tokens, c.reasoning_tokens, micros,
        coalesce(c.rated_micros, 0))
    on conflict (tenant_id, day, provider, model, team_id, session_id) do update
    set calls = u.calls + excluded.calls,
        failed_calls = u.failed_calls + excluded.failed_calls,
        unpriced_calls = u.unpriced_calls + excluded.unpriced_calls,
        input_tokens = u.input_tokens + excluded.input_tokens,
        cache_read_tokens = u.cache_read_tokens + excluded.cache_read_tokens,
        cache_write_tokens = u.cache_write_tokens + excluded.cache_write_tokens,
        output_tokens = u.output_tokens + excluded.output_tokens,
        reasoning_tokens = u.reasoning_tokens + excluded.reasoning_tokens,
        cost_micros = u.cost_micros + excluded.cost_micros,
        rated_micros = u.rated_micros + excluded.rated_micros;
    if c.tenant_micros + c.tenant_tokens + c.team_micros + c.session_micros = 0 then
        return;
    end if;
    return query with kept (scope, subject_id, period, micros, tokens) as (
        values ('tenant', tenant, c.period, c.tenant_micros, c.tenant_tokens),
               ('team', c.team_id, c.period, c.team_micros, 0),
               ('session', c.session_id, date '1970-01-01', c.session_micros, 0)
    ), lowered as (
        update holds h set micros = h.micros - k.micros, tokens = h.tokens - k.tokens
        from kept k
        where (h.tenant_id, h.scope, h.subject_id, h.period, h.owner)
            = (tenant, k.scope, k.subject_id, k.period, c.owner)
          and h.micros >= k.micros and h.tokens >= k.tokens and k.micros + k.tokens > 0
        returning h.scope)
    select tenant, k.scope, k.subject_id, k.period, null::bigint, null::bigint
    from kept k
    where k.micros + k.tokens > 0 and not exists (select from lowered l where l.scope = k.scope);
end $$;

create type journal_step as (
    seq integer, parent integer, kind text, name text, status text, key text, input json,
    output json, input_object uuid, output_object uuid, snapshot_id uuid, call_id uuid,
    input_tokens bigint, output_tokens bigint, cost_micros bigint, duration_ms integer,
    at timestamptz
);
create type journal_event as (id uuid, type text, data jsonb);
-- What one commit does to a session: `fence`, `seq` and `ran_ms` are what its owner knows of it.
create type session_change as (
    tenant_id uuid, session_id uuid, fence bigint, seq integer, ran_ms bigint,
    state text, snapshot_id uuid, doing jsonb, turns integer, release boolean, requeue boolean,
    waiting_for text, wake_at timestamptz, result jsonb, error text, error_code text,
    at timestamptz, finished_at timestamptz, has_checkpoint boolean,
    steps journal_step[], events journal_event[], calls settled_call[]
);
create type committed_change as (nth integer, pause_requested boolean, ran_ms bigint);

-- Applies changes by owners of sessions, all or none of them but for those whose session is not
-- their owner's any more or has other steps: they are left out, and missing from what it returns.
-- Time spent is counted by the database's clock, which all workers share. The books come last:
-- others wait for a tenant's accounts from then to the end.
create function commit_changes(changes session_change[]) returns setof committed_change
language plpgsql as $$
declare
    c session_change;
    call settled_call;
    done committed_change;
    number integer := 0;
    seconds bigint;
    committed boolean[];
begin
    -- Planned once: no plan here depends on values.
    perform set_config('plan_cache_mode', 'force_generic_plan', true);
    if cardinality(changes) > 1 then
        -- Whoever is stopped in a transaction of theirs holds up one session, not all of a worker.
        perform set_config('lock_timeout', '500ms', true);
    end if;
    foreach c in array changes loop
        number := number + 1;
        perform set_config('app.tenant_id', c.tenant_id::text, true);
        update sessions s set
            state = c.state, seq = c.seq + cardinality(c.steps), snapshot_id = c.snapshot_id,
            doing = c.doing, turns = c.turns, losses = 0,
            owner = case when c.release then null else owner end,
            running_since = case when c.release then null else running_since end,
            ran_ms = case when c.release then s.ran_ms + greatest(0,
                (extract(epoch from clock_timestamp() - running_since) * 1000)::bigint)
                else s.ran_ms end,
            queued_at = case when c.requeue then clock_timestamp() else null end,
            waiting_for = c.waiting_for, wake_at = c.wake_at,
            result = coalesce(c.result, result), error = c.error, error_code = c.error_code,
            updated_at = c.at, finished_at = c.finished_at
        where s.tenant_id = c.tenant_id and s.id = c.session_id and s.fence = c.fence
          and s.seq = c.seq and owner is not null
        returning number, s.pause_requested, s.ran_ms into done;
        committed[number] := found;
        continue when not found;
        if cardinality(c.steps) > 0 then
            insert into steps (tenant_id, session_id, fence, seq, parent, kind, name, status, key,
                input, output, input_object, output_object, snapshot_id, call_id, input_tokens,
                output_tokens, cost_micros, duration_ms, at)
            select c.tenant_id, c.session_id, c.fence, n.* from unnest(c.steps) n;
        end if;
        if c.has_checkpoint then
            insert into checkpoints (tenant_id, id, session_id, seq, name, snapshot_id, created_at)
            select c.tenant_id, (n.output ->> 'checkpoint_id')::uuid, c.session_id, n.seq, n.name,
                n.snapshot_id, n.at
            from unnest(c.steps) n where n.kind = 'checkpoint';
        end if;
        if cardinality(c.events) > 0 then
            insert into outbox (tenant_id, id, type, data, at)
            select c.tenant_id, e.id, e.type, e.data, c.at from unnest(c.events) e;
        end if;
        seconds := (done.ran_ms + 999) / 1000 - (c.ran_ms + 999) / 1000;
        if seconds > 0 then
            insert into meters as m (tenant_id, day, meter, quantity)
            values (c.tenant_id, (c.at at time zone 'utc')::date, 'compute_seconds', seconds)
            on conflict (tenant_id, day, meter) do update set quantity = m.quantity + excluded.quantity;
        end if;
        return next done;
    end loop;
    number := 0;
    foreach c in array changes loop
        number := number + 1;
        continue when not committed[number] or cardinality(c.calls) = 0;
        perform set_config('app.tenant_id', c.tenant_id::text, true);
        foreach call in array c.calls loop
            perform from settle_call(c.tenant_id, call);
            if found then
                raise exception 'a budget has to be looked at' using errcode = 'AO001';
            end if;
        end loop;
    end loop;
end $$;
revoke execute on function settle_call, commit_changes from public;
grant execute on function settle_call, commit_changes to agentos_runtime;
