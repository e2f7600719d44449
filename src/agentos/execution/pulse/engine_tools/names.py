"""The names of the engine's own tools, as a session's `tools` may list them.

Without a list a session has all of them. With one it has those that the list names, and
`read_output`, which comes with every tool that may have a long output. `sub_agents: false` takes
away spawn_agents and collect_files in any case. The tool for the final answer is none of these: it
is there whenever a session has an output_schema.
"""

from __future__ import annotations

ASK_HUMAN = "ask_human"
UPDATE_PLAN = "update_plan"
READ_OUTPUT = "read_output"
SPAWN_AGENTS = "spawn_agents"
COLLECT_FILES = "collect_files"

ENGINE_TOOLS = (ASK_HUMAN, UPDATE_PLAN, READ_OUTPUT, SPAWN_AGENTS, COLLECT_FILES)
FOR_SUB_AGENTS = frozenset({SPAWN_AGENTS, COLLECT_FILES})
