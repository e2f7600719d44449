import type { Scope } from "@/api/session";

/** What each scope lets somebody do. A scope of the API that is missing here does not compile. */
const WORDS: Record<Scope, { group: string; words: string }> = {
  "sessions:read": { group: "Sessions and chains", words: "See sessions, chains and what they did" },
  "sessions:write": { group: "Sessions and chains", words: "Start, steer and stop sessions and chains" },
  "approvals:write": { group: "Sessions and chains", words: "Approve, reject and answer questions" },
  "teams:read": { group: "Teams and chat", words: "See teams" },
  "teams:write": { group: "Teams and chat", words: "Create, deploy, change and delete teams" },
  "messages:read": { group: "Teams and chat", words: "Read the chat" },
  "messages:write": { group: "Teams and chat", words: "Write to teams" },
  "schedules:read": { group: "Schedules and webhooks", words: "See schedules" },
  "schedules:write": { group: "Schedules and webhooks", words: "Create, change and delete schedules" },
  "webhooks:read": { group: "Schedules and webhooks", words: "See webhooks" },
  "webhooks:write": { group: "Schedules and webhooks", words: "Create, change and delete webhooks" },
  "models:use": { group: "Models and money", words: "Call models" },
  "models:read": { group: "Models and money", words: "See providers, models and prices" },
  "models:write": { group: "Models and money", words: "Connect and change providers, prices and the fallback chain" },
  "usage:read": { group: "Models and money", words: "See usage, costs and budgets" },
  "budgets:write": { group: "Models and money", words: "Set and remove budgets" },
  "tools:read": { group: "Safety", words: "See tools and who may use them" },
  "tools:write": { group: "Safety", words: "Decide which tools are allowed" },
  "vault:read": { group: "Safety", words: "See which secrets there are, never their values" },
  "vault:write": { group: "Safety", words: "Store, replace and delete secrets" },
  "audit:read": { group: "Safety", words: "Read the audit log" },
  "objects:read": { group: "Files and events", words: "Read stored files" },
  "objects:write": { group: "Files and events", words: "Store and delete files" },
  "events:read": { group: "Files and events", words: "Follow events as they happen" },
  "tenant:read": { group: "Tenant and people", words: "See the tenant and its plan" },
  "tenant:write": { group: "Tenant and people", words: "Rename the tenant, and make or remove owners" },
  "members:read": { group: "Tenant and people", words: "See members and invitations" },
  "members:write": { group: "Tenant and people", words: "Invite, change and remove members" },
  "keys:read": { group: "Tenant and people", words: "See API keys, never the keys themselves" },
  "keys:write": { group: "Tenant and people", words: "Create and revoke API keys" },
};

export interface ScopeGroup {
  name: string;
  scopes: { scope: Scope; words: string }[];
}

/** These scopes in groups that belong together, in words; groups without any are left out. */
export function groupScopes(held: readonly string[]): ScopeGroup[] {
  const groups = new Map<string, ScopeGroup>();
  for (const [scope, { group, words }] of Object.entries(WORDS) as [Scope, { group: string; words: string }][]) {
    if (!held.includes(scope)) continue;
    const found = groups.get(group) ?? { name: group, scopes: [] };
    found.scopes.push({ scope, words });
    groups.set(group, found);
  }
  return [...groups.values()];
}
