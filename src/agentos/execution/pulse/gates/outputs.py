"""A gate that looks at the session's output."""

from __future__ import annotations

from agentos.execution.pulse import conversation, outputs
from agentos.execution.pulse.gates.schemas import SchemaGate
from agentos.execution.pulse.json_schemas import JsonSchema
from agentos.execution.pulse.run import Run
from agentos.execution.pulse.waits import Verdict


async def check_schema(run: Run, gate: SchemaGate) -> Verdict:
    """The structured output, or else the answer's text as JSON."""
    output = outputs.output_of(run)
    if output is None:
        answer = conversation.last_answer(run.path)
        try:
            output = outputs.Output(outputs.json_in(conversation.text_of(answer) if answer else ""))
        except outputs.NotJson:
            return Verdict(False, "The answer is not JSON. Answer with JSON, and nothing else.")
    problems = JsonSchema(gate.json_schema).problems(output.value)
    if problems:
        return Verdict(False, f"The output does not satisfy the schema: {'; '.join(problems)}.")
    return Verdict(True, "The output satisfies the schema.")
