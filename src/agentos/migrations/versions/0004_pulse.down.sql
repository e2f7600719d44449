drop function commit_changes, settle_call;
drop type committed_change, session_change, journal_event, journal_step, account_in_question, settled_call;
drop table tool_policies, chain_nodes, chains, approvals, checkpoints, steps, sessions, workers;
revoke select on alembic_version from agentos_runtime, agentos_platform;
