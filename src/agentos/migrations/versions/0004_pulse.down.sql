drop table tool_policies, chain_nodes, chains, approvals, checkpoints, steps, sessions, workers;
