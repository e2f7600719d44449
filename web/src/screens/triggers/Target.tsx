import { Link } from "@tanstack/react-router";
import { SquareActivity, Users } from "lucide-react";

import { $api } from "@/api/client";
import type { Schemas } from "@/api/types";

type Targeted = Pick<Schemas["ScheduleRead"], "team_id" | "session">;

/** Whom it asks or what it starts, in few words. */
export function Target({ of, linked = false }: { of: Targeted; linked?: boolean }) {
  const teams = $api.useQuery("get", "/api/teams", { params: { query: { limit: 200 } } }, { enabled: of.team_id !== null });
  if (of.team_id === null) {
    const model = of.session?.model;
    return <Worded icon={<SquareActivity size={14} aria-hidden />}>Starts a session{typeof model === "string" && model !== "auto" ? ` with ${model}` : ""}</Worded>;
  }
  const name = teams.data?.items.find((team) => team.id === of.team_id)?.name ?? "a team";
  return (
    <Worded icon={<Users size={14} aria-hidden />}>
      Asks{" "}
      {linked ? (
        <Link to="/teams/$teamId" params={{ teamId: of.team_id }} className="text-accent-ink underline">
          {name}
        </Link>
      ) : (
        name
      )}
    </Worded>
  );
}

function Worded({ icon, children }: { icon: React.ReactNode; children: React.ReactNode }) {
  return (
    <span className="inline-flex max-w-full min-w-0 items-center gap-1.5">
      <span className="shrink-0 text-faint">{icon}</span>
      <span className="truncate">{children}</span>
    </span>
  );
}
