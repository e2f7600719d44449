import type { Query, QueryClient } from "@tanstack/react-query";

import type { TenantEvent } from "./socket";

/** Which parts of the API show something else after an event of this kind. */
const CONCERNS: Record<string, string[]> = {
  session: ["/api/sessions", "/api/usage", "/api/budgets"],
  approval: ["/api/approvals", "/api/sessions/{session_id}"],
  chain: ["/api/chains"],
  tool: ["/api/tools"],
  team: ["/api/teams", "/api/plan"],
  message: ["/api/teams", "/api/usage"],
  schedule: ["/api/schedules"],
  webhook: ["/api/webhooks"],
  post_action: ["/api/post-actions"],
  run: ["/api/schedules", "/api/webhooks", "/api/runs"],
  budget: ["/api/budgets"],
  model: ["/api/models", "/api/usage"],
  secret: ["/api/vault"],
  vault: ["/api/vault"],
  member: ["/api/members", "/api/invitations", "/api/plan"],
  api_key: ["/api/keys", "/api/plan"],
  tenant: ["/api/tenants", "/api/plan", "/api/auth/me"],
  object: ["/api/objects", "/api/usage/storage"],
};
// What a session that works says with every step; the lists can wait until it changes its state.
const FREQUENT: Record<string, string[]> = { "session.progress": ["/api/sessions/{session_id}"] };
// Each of these says who did it, and every one of them is in the audit log as well.
const ALWAYS = ["/api/audit"];
// What changes often is asked for again at most so often.
const WAIT = 250;

type Init = { params?: { path?: Record<string, string> } };

/** Whether the answer to a query may be different after `event`. */
export function concerns(event: TenantEvent, path: string, init: Init | undefined): boolean {
  const root = event.type.split(".")[0] ?? "";
  const roots = FREQUENT[event.type] ?? [...(CONCERNS[root] ?? []), ...ALWAYS];
  if (!roots.some((each) => path === each || path.startsWith(`${each}/`) || path.startsWith(`${each}?`))) return false;
  // A query about one thing, and an event about another of its kind.
  for (const [name, value] of Object.entries(init?.params?.path ?? {})) {
    const about = event.data[name];
    if (typeof about === "string" && about !== value) return false;
  }
  return true;
}

/** Whether the answer to a query may be different after `event`, and it does not see to that itself. */
function isAbout(event: TenantEvent, query: Query): boolean {
  // Long lists bring themselves up to date: asking for all their pages again is too much.
  if (query.meta?.live === "self") return false;
  const [, path, init] = query.queryKey as [unknown, unknown, Init | undefined];
  return typeof path === "string" && concerns(event, path, init);
}

/** Marks what events have changed as old, a few times a second at most. */
export class Invalidation {
  private waiting: TenantEvent[] = [];
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly client: QueryClient) {}

  add(event: TenantEvent): void {
    this.waiting.push(event);
    this.timer ??= setTimeout(() => this.flush(), WAIT);
  }

  everything(): void {
    void this.client.invalidateQueries();
  }

  private flush(): void {
    const events = this.waiting;
    this.timer = undefined;
    // A first answer that is on its way cannot be marked, and may be from before the event.
    const coming = this.client.getQueryCache().findAll({ fetchStatus: "fetching", predicate: (query) => query.state.data === undefined });
    this.waiting = [];
    events.filter((event) => coming.some((query) => isAbout(event, query))).forEach((event) => this.add(event));
    void this.client.invalidateQueries({ predicate: (query) => events.some((event) => isAbout(event, query)) });
  }
}
