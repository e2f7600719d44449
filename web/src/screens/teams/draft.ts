import type { Schemas } from "@/api/types";

import { joinCommand, splitCommand } from "./commandLine";
import { newName } from "./documents";
import { type Faults, HANDLE, HANDLE_RULE } from "./faults";
import type { Provider, Runtime } from "./words";

type AgentPut = Schemas["AgentPut"];
type TeamCreate = Schemas["TeamCreate"];

export interface AgentDraft {
  /** Stays the same while the agent is renamed and moved. */
  key: string;
  name: string;
  role: string;
  instructions: string;
  /** "" is that of the team. */
  model: string;
  /** What the builder does not show: kept as the template has it. */
  rest: Pick<AgentPut, "skills" | "permissions">;
}

/** A team on its way to be made. */
export interface TeamDraft {
  template: string;
  /** Something was typed: another template would take it away. */
  touched: boolean;
  name: string;
  description: string;
  provider: Provider;
  runtime: Runtime;
  model: string;
  command: string;
  leader: AgentDraft;
  workers: AgentDraft[];
  deploy: boolean;
  /** What the builder does not show: kept as the template has it. */
  rest: Partial<Pick<TeamCreate, "skills" | "mcp_servers" | "allowed_hosts" | "answer_seconds">>;
}

export const BLANK = "blank";

function agentDraft(agent: Partial<AgentPut> & { name: string }): AgentDraft {
  return {
    key: crypto.randomUUID?.() ?? String(Math.random()),
    name: agent.name,
    role: agent.role ?? "",
    instructions: agent.instructions ?? "",
    model: agent.model ?? "",
    rest: { skills: agent.skills ?? [], ...(agent.permissions && { permissions: agent.permissions }) },
  };
}

/** A worker that is still to be described, with a name that nobody has yet. */
export function newWorker(draft: TeamDraft): AgentDraft {
  const taken = [draft.leader, ...draft.workers].map((agent) => agent.name);
  return agentDraft({ name: newName("worker", taken) });
}

export function blankDraft(): TeamDraft {
  return {
    template: BLANK,
    touched: false,
    name: "",
    description: "",
    provider: "native",
    runtime: "local",
    model: "auto",
    command: "",
    leader: agentDraft({ name: "leader" }),
    workers: [],
    deploy: true,
    rest: {},
  };
}

/** The draft that a template begins with. */
export function draftOf(template: Schemas["TemplateRead"]): TeamDraft {
  const definition = template.definition as Partial<TeamCreate> & Pick<TeamCreate, "name" | "leader">;
  const { skills, mcp_servers, allowed_hosts, answer_seconds } = definition;
  const rest = Object.entries({ skills, mcp_servers, allowed_hosts, answer_seconds }).filter(([, value]) => value !== undefined);
  return {
    ...blankDraft(),
    template: template.id,
    name: definition.name,
    description: definition.description ?? "",
    provider: definition.provider ?? "native",
    runtime: definition.runtime ?? "local",
    model: definition.model ?? "auto",
    command: joinCommand(definition.command ?? []),
    leader: agentDraft(definition.leader),
    workers: (definition.workers ?? []).map(agentDraft),
    rest: Object.fromEntries(rest),
  };
}

function agentPut(agent: AgentDraft): AgentPut {
  return {
    name: agent.name.trim(),
    role: agent.role.trim(),
    instructions: agent.instructions,
    model: agent.model === "" ? null : agent.model,
    ...agent.rest,
  };
}

/** What is sent to make the team: only what its provider takes. */
export function teamCreate(draft: TeamDraft): TeamCreate {
  return {
    ...draft.rest,
    name: draft.name.trim(),
    description: draft.description.trim(),
    provider: draft.provider,
    ...(draft.provider !== "native" && { runtime: draft.runtime }),
    ...(draft.provider === "acp" && { command: splitCommand(draft.command) }),
    model: draft.model,
    leader: agentPut(draft.leader),
    workers: draft.workers.map(agentPut),
    deploy: draft.deploy,
  } as TeamCreate;
}

/** What can be seen to be wrong before the server is asked. */
export function draftFaults(draft: TeamDraft): Faults {
  const faults: Faults = {};
  if (draft.name.trim() === "") faults.name = "Give the team a name.";
  if (draft.name.trim().length > 100) faults.name = "100 characters are the most.";
  if (draft.provider === "acp" && splitCommand(draft.command).length === 0) {
    faults.command = "An ACP team needs the command that starts its agent.";
  }
  const seen = new Set<string>();
  [draft.leader, ...draft.workers].forEach((agent, index) => {
    const path = index === 0 ? "leader" : `workers.${index - 1}`;
    const name = agent.name.trim();
    if (!HANDLE.test(name)) faults[`${path}.name`] = HANDLE_RULE;
    else if (seen.has(name)) faults[`${path}.name`] = "Another agent has this name.";
    seen.add(name);
  });
  return faults;
}
