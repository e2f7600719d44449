import type { Schemas } from "@/api/types";

export type Tier = Schemas["ToolRead"]["tier"];
export type Decision = Schemas["Decision"];
export type Policy = Schemas["ToolPolicyRead"];

export const TIERS: Record<Tier, { name: string; note: string; standard: Decision }> = {
  safe: { name: "Safe", note: "Reads, or changes files that a rollback brings back.", standard: "allow" },
  dangerous: { name: "Dangerous", note: "Runs commands, deletes, or reaches out and reads.", standard: "allow" },
  destructive: { name: "Destructive", note: "Changes something outside that nobody can take back.", standard: "ask" },
};

export const DECISIONS: Record<Decision, { name: string; note: string }> = {
  allow: { name: "Allow", note: "Agents use it by themselves." },
  ask: { name: "Ask", note: "A person approves each call." },
  deny: { name: "Deny", note: "Agents cannot use it." },
};

export interface Standard {
  decision: Decision;
  /** What decides it: a pattern, a tier, or null for what AgentOS brings along. */
  by: string | null;
}

/** What counts for a tool that has no decision of its own: the longest pattern, then its tier. */
export function standardOf(tool: { name: string; tier: Tier }, policies: Policy[]): Standard {
  const patterns = policies.filter((policy) => policy.subject.endsWith("*") && tool.name.startsWith(policy.subject.slice(0, -1)));
  const longest = patterns.sort((a, b) => b.subject.length - a.subject.length)[0];
  const tier = policies.find((policy) => policy.subject === `tier:${tool.tier}`);
  const found = longest ?? tier;
  return found ? { decision: found.decision, by: found.subject } : { decision: TIERS[tool.tier].standard, by: null };
}

/** The policies that are neither about a listed tool nor about a tier: patterns and tools of MCP servers. */
export function otherPolicies(tools: { name: string }[], policies: Policy[]): Policy[] {
  const listed = new Set(tools.map((tool) => tool.name));
  return policies.filter((policy) => !policy.subject.startsWith("tier:") && !listed.has(policy.subject));
}
