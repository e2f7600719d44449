"""Which of the engine's tools a session has."""

from __future__ import annotations

from agentos.execution.pulse.engine_tools.ask_human import AskHuman
from agentos.execution.pulse.engine_tools.base import EngineTool
from agentos.execution.pulse.engine_tools.collect_files import CollectFiles
from agentos.execution.pulse.engine_tools.names import FOR_SUB_AGENTS, READ_OUTPUT
from agentos.execution.pulse.engine_tools.read_output import ReadOutput
from agentos.execution.pulse.engine_tools.spawn_agents import SpawnAgents
from agentos.execution.pulse.engine_tools.update_plan import UpdatePlan
from agentos.execution.pulse.outputs import final_answer
from agentos.execution.pulse.run import Run
from agentos.execution.pulse.schemas import SessionConfig

_ALL: tuple[EngineTool, ...] = (
    AskHuman(),
    UpdatePlan(),
    ReadOutput(),
    SpawnAgents(),
    CollectFiles(),
)


def offered_engine_tools(run: Run) -> dict[str, EngineTool]:
    """Those that this session may use, by name. See names.py for the rule."""
    offered = {tool.spec.name: tool for tool in _ALL if _is_wanted(run.config, tool.spec.name)}
    last = final_answer(run)
    if last is not None:
        offered[last.spec.name] = last
    return offered


def _is_wanted(config: SessionConfig, name: str) -> bool:
    if name in FOR_SUB_AGENTS and not config.sub_agents:
        return False
    if config.tools is None or name in config.tools:
        return True
    return name == READ_OUTPUT and bool(config.tools or config.mcp_servers)
