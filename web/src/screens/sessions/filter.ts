import type { Schemas } from "@/api/types";

type State = Schemas["State"];

/** What the address of the list holds. */
export interface Filter {
  q?: string | undefined;
  state?: string | undefined;
  team?: string | undefined;
}

/** States as people ask for them. */
export const GROUPS: Record<string, { name: string; states: State[] }> = {
  active: { name: "Active", states: ["QUEUED", "RUNNING", "CHECKPOINT", "GATE_CHECK", "ROLLBACK"] },
  paused: { name: "Paused or waiting", states: ["PAUSED"] },
  complete: { name: "Complete", states: ["COMPLETE"] },
  failed: { name: "Failed", states: ["FAILED"] },
  rolled_back: { name: "Rolled back", states: ["ROLLED_BACK"] },
  created: { name: "Not started", states: ["CREATED"] },
};

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** The same as the API asks for it; what makes no sense does not restrict. */
export function queryOf(filter: Filter): { q?: string; state?: State[]; team_id?: string } {
  const states = filter.state ? GROUPS[filter.state]?.states : undefined;
  return {
    ...(filter.q ? { q: filter.q.slice(0, 200) } : {}),
    ...(states ? { state: states } : {}),
    ...(filter.team && UUID.test(filter.team) ? { team_id: filter.team } : {}),
  };
}
