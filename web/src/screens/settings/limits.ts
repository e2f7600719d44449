import type { Schemas } from "@/api/types";
import { formatBytes, formatCount } from "@/lib/format";

const WORDS: Record<string, string> = {
  team_members: "Members",
  api_keys: "API keys",
  vault_secrets: "Secrets in the vault",
  model_providers: "Connected providers",
  concurrent_sessions: "Sessions at once",
  session_minutes: "Minutes of a session",
  deployed_teams: "Deployed teams",
  team_memory_mb: "Memory of a team",
  team_cpu_percent: "Processor of a team",
  team_processes: "Processes of a team",
  tokens_per_month: "Tokens each month",
  concurrent_model_calls: "Model calls at once",
  requests_per_minute: "Requests each minute",
  api_calls_per_month: "API calls each month before they cost",
  heartbeat_checks: "Heartbeat checks",
  dreams: "Dreams",
  private_skills: "Private skills",
  self_hosted_skills: "Self-hosted skills",
  storage_bytes: "Storage",
};

export interface Limit {
  name: string;
  words: string;
  text: string;
  /** For what is either part of the plan or not. */
  included: boolean | undefined;
  meter: { used: number; allowed: number } | undefined;
}

/** The limits of a plan in words, those with a count first. Storage has a card of its own. */
export function limitsOf(limits: Schemas["LimitRead"][]): Limit[] {
  const all = limits.filter((limit) => limit.name !== "storage_bytes").map(limitOf);
  return [...all.filter((limit) => limit.meter), ...all.filter((limit) => !limit.meter)];
}

function limitOf({ name, allowed, used }: Schemas["LimitRead"]): Limit {
  // A limit that is newer than this list is still shown.
  const words = WORDS[name] ?? name.replaceAll("_", " ").replace(/^./, (first) => first.toUpperCase());
  if (typeof allowed === "boolean") return { name, words, text: allowed ? "Included" : "Not included", included: allowed, meter: undefined };
  const most = allowed === null ? "no limit" : amount(name, allowed);
  return {
    name,
    words,
    text: used === null ? most : `${amount(name, used)} of ${most}`,
    included: undefined,
    meter: used !== null && allowed !== null ? { used, allowed } : undefined,
  };
}

function amount(name: string, value: number): string {
  if (name.endsWith("_mb")) return formatBytes(value * 1_000_000);
  if (name.endsWith("_percent")) return `${value} %`;
  return formatCount(value);
}
