export interface GateForm {
  kind: "command" | "tests" | "file" | "cost" | "time" | "rubric" | "approval";
  name: string;
  /** The command, the path, the dollars, the seconds, the rubric or the question. */
  value: string;
  onFail: "fail" | "retry" | "rollback";
}

export interface Form {
  prompt: string;
  title: string;
  instructions: string;
  model: string;
  budget: string;
  tools: string[];
  gates: GateForm[];
  maxTurns: string;
  maxMinutes: string;
  priority: string;
  hosts: string;
  outputSchema: string;
  subAgents: boolean;
}

export const EMPTY_FORM: Form = {
  prompt: "",
  title: "",
  instructions: "",
  model: "auto",
  budget: "",
  tools: [],
  gates: [],
  maxTurns: "",
  maxMinutes: "",
  priority: "",
  hosts: "",
  outputSchema: "",
  subAgents: true,
};

/** What cannot be sent as it is, by field, in words. */
export function faultsOf(form: Form): Partial<Record<keyof Form, string>> {
  const faults: Partial<Record<keyof Form, string>> = {};
  if (form.budget && !(Number(form.budget) >= 0)) faults.budget = "An amount such as 0.50.";
  if (form.maxTurns && !between(form.maxTurns, 1, 1000)) faults.maxTurns = "A whole number from 1 to 1000.";
  if (form.maxMinutes && !(Number(form.maxMinutes) > 0)) faults.maxMinutes = "A number of minutes.";
  if (form.priority && !between(form.priority, -100, 100)) faults.priority = "A whole number from -100 to 100.";
  if (form.outputSchema.trim() && !isObject(form.outputSchema)) faults.outputSchema = "This is not a JSON object.";
  if (form.gates.some((gate) => !gate.name.trim() || (gate.kind !== "tests" && !gate.value.trim()))) {
    faults.gates = "Every gate needs a name and what it checks.";
  }
  return faults;
}

function between(text: string, least: number, most: number): boolean {
  const number = Number(text);
  return Number.isInteger(number) && number >= least && number <= most;
}

function isObject(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}

/** The body of `POST /api/sessions`; what was left empty is left to the server. */
export function bodyOf(form: Form): Record<string, unknown> {
  const guards = {
    ...(form.maxTurns ? { max_turns: Number(form.maxTurns) } : {}),
    ...(form.maxMinutes ? { max_seconds: Math.ceil(Number(form.maxMinutes) * 60) } : {}),
  };
  const hosts = form.hosts.split(/\s+/).filter(Boolean);
  return {
    prompt: form.prompt.trim(),
    model: form.model,
    ...(form.title.trim() ? { title: form.title.trim() } : {}),
    ...(form.instructions.trim() ? { instructions: form.instructions.trim() } : {}),
    ...(form.budget ? { budget_micros: Math.round(Number(form.budget) * 1_000_000) } : {}),
    ...(form.tools.length ? { tools: form.tools } : {}),
    ...(form.gates.length ? { gates: form.gates.map(gateOf) } : {}),
    ...(Object.keys(guards).length ? { guards } : {}),
    ...(form.priority ? { priority: Number(form.priority) } : {}),
    ...(hosts.length ? { allowed_hosts: hosts } : {}),
    ...(form.outputSchema.trim() ? { output_schema: JSON.parse(isObject(form.outputSchema) ? form.outputSchema : "{}") as unknown } : {}),
    ...(form.subAgents ? {} : { sub_agents: false }),
  };
}

function gateOf(gate: GateForm): Record<string, unknown> {
  const value = gate.value.trim();
  const about: Record<GateForm["kind"], Record<string, unknown>> = {
    command: { command: value },
    tests: value ? { command: value } : {},
    file: { path: value },
    cost: { most_micros: Math.round(Number(value) * 1_000_000) },
    time: { most_seconds: Number(value) },
    rubric: { rubric: value },
    approval: { question: value },
  };
  return { kind: gate.kind, name: gate.name.trim(), on_fail: gate.onFail, ...about[gate.kind] };
}
