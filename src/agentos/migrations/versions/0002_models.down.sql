drop table meters, usage_days, ledger_entries, holds, accounts, budgets, model_calls, model_prices, fallback_chains, model_providers;
create or replace function refuse_change() returns trigger language plpgsql as $$
begin
    raise exception 'the audit log is append-only' using errcode = 'insufficient_privilege';
end $$;
