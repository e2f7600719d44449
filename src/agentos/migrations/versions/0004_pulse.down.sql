drop table tool_policies, chain_nodes, chains, approvals, checkpoints, steps, sessions, workers;
revoke select on alembic_version from agentos_runtime, agentos_platform;
