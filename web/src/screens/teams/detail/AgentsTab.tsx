import { getRouteApi } from "@tanstack/react-router";
import { Crown, UserRound } from "lucide-react";

import { useMay } from "@/api/session";
import type { Schemas } from "@/api/types";

import { newName } from "../documents";
import { summaryOf } from "../permissions";
import type { TeamDetails } from "../teamQueries";
import { AgentEditor } from "./AgentEditor";
import { Pane } from "./Pane";

const route = getRouteApi("/inside/teams/$teamId");
// No agent can be called so: a name holds small letters, digits and hyphens.
const NEW = "+";

/** The leader and the workers, each with everything that can be said about it. */
export function AgentsTab({ team }: { team: TeamDetails }) {
  const { agent: asked } = route.useSearch();
  const navigate = route.useNavigate();
  const may = useMay("teams:write");
  const agents = [team.leader, ...team.workers];
  const adding = asked === NEW && may;
  const agent = adding ? newWorker(agents.map((each) => each.name)) : (agents.find((each) => each.name === asked) ?? team.leader);
  const select = (name: string | undefined) => void navigate({ search: { tab: "agents", agent: name } });
  const items = agents.map((each) => ({
    key: each.name,
    name: each.name,
    note: [...(each.leader ? ["leader"] : []), ...summaryOf(each.permissions)].join(", "),
    icon: each.leader ? <Crown size={15} aria-hidden className="mt-0.5 shrink-0" /> : <UserRound size={15} aria-hidden className="mt-0.5 shrink-0" />,
  }));
  return (
    <Pane
      label="Agents"
      items={items}
      selected={adding ? undefined : agent.name}
      onSelect={select}
      onAdd={may && team.workers.length < 50 ? () => select(NEW) : undefined}
      addLabel="Add a worker"
    >
      <AgentEditor key={adding ? NEW : agent.name} team={team} agent={agent} isNew={adding} readOnly={!may} onGone={() => select(undefined)} onSaved={select} />
    </Pane>
  );
}

function newWorker(taken: string[]): Schemas["AgentRead"] {
  return { name: newName("worker", taken), leader: false, role: "", instructions: "", model: null, skills: [], permissions: {} };
}
