import type { Schemas } from "@/api/types";

import { joinCommand, splitCommand } from "./commandLine";
import type { Faults } from "./faults";
import { linesOf } from "./permissions";
import type { TeamDetails } from "./teamQueries";

export type McpServer = Schemas["McpServer"];

/** A header or a variable: its value itself, or the name of a secret in the vault. */
export interface ValueDraft {
  name: string;
  from: "text" | "secret";
  value: string;
}

export interface McpDraft {
  name: string;
  kind: "url" | "command";
  url: string;
  command: string;
  headers: ValueDraft[];
  env: ValueDraft[];
  onlyTools: boolean;
  tools: string;
  timeoutSeconds: string;
}

type Values = NonNullable<McpServer["headers"]>;

function rowsOf(values: Values | undefined): ValueDraft[] {
  return Object.entries(values ?? {}).map(([name, value]) =>
    typeof value === "string" ? { name, from: "text", value } : { name, from: "secret", value: value.secret },
  );
}

function valuesOf(rows: ValueDraft[]): Values {
  return Object.fromEntries(rows.map((row) => [row.name.trim(), row.from === "secret" ? { secret: row.value } : row.value]));
}

export function serversOf(team: TeamDetails): McpServer[] {
  return team.mcp_servers as unknown as McpServer[];
}

export function draftOfServer(server: McpServer): McpDraft {
  return {
    name: server.name,
    kind: server.command ? "command" : "url",
    url: server.url ?? "",
    command: joinCommand(server.command ?? []),
    headers: rowsOf(server.headers),
    env: rowsOf(server.env),
    onlyTools: Array.isArray(server.tools),
    tools: (server.tools ?? []).join("\n"),
    timeoutSeconds: String(server.timeout_seconds),
  };
}

/** What the API takes: the fields of the one way or of the other, never both. */
export function serverOf(draft: McpDraft): McpServer {
  const remote = draft.kind === "url";
  return {
    name: draft.name.trim(),
    ...(remote ? { url: draft.url.trim(), headers: valuesOf(draft.headers) } : { command: splitCommand(draft.command), env: valuesOf(draft.env) }),
    tools: draft.onlyTools ? linesOf(draft.tools) : null,
    timeout_seconds: Number(draft.timeoutSeconds),
  };
}

export function serverFaults(draft: McpDraft): Faults {
  const faults: Faults = {};
  if (!/^[a-z0-9](?:[a-z0-9-]{0,22}[a-z0-9])?$/.test(draft.name.trim())) faults.name = "Small letters, digits and hyphens; 24 at most.";
  if (draft.kind === "url" && !/^https?:\/\/\S+$/.test(draft.url.trim())) faults.url = "An address that begins with https:// or http://.";
  if (draft.kind === "command" && splitCommand(draft.command).length === 0) faults.command = "Say what to run.";
  const seconds = Number(draft.timeoutSeconds);
  if (!Number.isInteger(seconds) || seconds < 1 || seconds > 3600) faults.timeout_seconds = "A whole number from 1 to 3,600.";
  const rows = draft.kind === "url" ? draft.headers : draft.env;
  const field = draft.kind === "url" ? "headers" : "env";
  const names = rows.map((row) => row.name.trim());
  if (names.includes("")) faults[field] = "Each needs a name.";
  else if (new Set(names).size < names.length) faults[field] = "Two have the same name.";
  else if (rows.some((row) => row.from === "secret" && row.value === "")) faults[field] = "Choose a secret, or give the value itself.";
  return faults;
}

/** How a server is, as the running agent has said it last. */
export function serverStatus(team: TeamDetails, name: string): { status: string; error: string } | undefined {
  const known: unknown = team.mcp_status[name];
  if (typeof known === "string") return { status: known, error: "" };
  if (typeof known !== "object" || known === null) return undefined;
  const { status, error } = known as Record<string, unknown>;
  return { status: String(status ?? ""), error: String(error ?? "") };
}
