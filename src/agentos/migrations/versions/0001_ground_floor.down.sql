drop table discarded_objects, storage_usage, objects, rate_buckets, socket_tickets, idempotency_keys,
    relay_cursor, event_counters, events, outbox, platform_audit_log, audit_log, vault_secrets,
    vault_keys, logins, api_keys, invitations, members, users, tenants cascade;
drop function take_tokens, refuse_change, app_tenant, app_user, app_email;
drop procedure protect_tenant_table;
