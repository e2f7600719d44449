import { type ApiProblem, problemOf } from "@/api/problem";

/** What is wrong, by the path of the field in a team's document: `leader.name`, `workers.1.role`. */
export type Faults = Record<string, string>;

export const HANDLE = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
export const HANDLE_RULE = "Small letters, digits and hyphens, such as fact-checker; 63 at most.";

/** What is wrong with the field at `path` or anything below it. */
export function faultAt(faults: Faults, path: string): string | undefined {
  if (faults[path] !== undefined) return faults[path];
  const below = Object.keys(faults).find((each) => each.startsWith(`${path}.`));
  return below === undefined ? undefined : faults[below];
}

/** Faults of what lies below `path`, by their path from there. */
export function faultsBelow(faults: Faults, path: string): Faults {
  const below = Object.entries(faults).filter(([each]) => each.startsWith(`${path}.`));
  return Object.fromEntries(below.map(([each, message]) => [each.slice(path.length + 1), message]));
}

/** The fields that a problem is about, as far as it names them. `agents` are the leader, then the workers. */
export function faultsOf(error: unknown, agents: string[] = []): Faults {
  const problem = problemOf(error);
  if (problem.fields.length > 0) {
    return named(problem.fields.map(({ field, message }) => [field.replace(/^body\.?/, ""), message]));
  }
  switch (problem.code) {
    case "team_name_taken":
      return { name: withHint(problem.message, problem) };
    case "bad_team":
      return named(problem.message.split("; ").map(pathAndMessage));
    case "bad_allowed_host":
      return { allowed_hosts: withHint(problem.message, problem) };
    case "model_not_found":
      return ofAgent(problem, agents, "model");
    case "unknown_tool":
      return ofAgent(problem, agents, "permissions.tools");
    default:
      return {};
  }
}

function named(pairs: [string, string][]): Faults {
  // A fault of the whole document has no field: it is shown as the problem itself.
  const found = pairs.filter(([path]) => path !== "" && path !== "the team");
  return Object.fromEntries(found.map(([path, message]) => [path, plain(path, message)]));
}

function pathAndMessage(text: string): [string, string] {
  const at = text.indexOf(": ");
  return at < 0 ? ["", text] : [text.slice(0, at), text.slice(at + 2)];
}

/** The server names the agent in front, if it is about one: `tester: There is no model x here.` */
function ofAgent(problem: ApiProblem, agents: string[], field: string): Faults {
  const [name, message] = pathAndMessage(problem.message);
  const index = agents.indexOf(name);
  const text = withHint(index < 0 ? problem.message : message, problem);
  if (index < 0) return field === "model" ? { model: text } : {};
  return { [`${index === 0 ? "leader" : `workers.${index - 1}`}.${field}`]: text };
}

function withHint(message: string, problem: ApiProblem): string {
  return problem.hint ? `${message} ${problem.hint}` : message;
}

function plain(path: string, message: string): string {
  if (/(^|\.)name$/.test(path) && /match pattern/.test(message)) return HANDLE_RULE;
  if (/at least 1 character/.test(message)) return "This is needed.";
  const own = message.replace(/^Value error, /, "");
  return own.charAt(0).toUpperCase() + own.slice(1);
}
