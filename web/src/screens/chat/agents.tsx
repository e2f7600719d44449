import clsx from "clsx";
import { createContext, useContext } from "react";

import type { Schemas } from "@/api/types";

export type Team = Schemas["TeamDetails"];

const TeamContext = createContext<Team | null>(null);
export const TeamProvider = TeamContext.Provider;

/** The team that is talked to. */
export function useTeam(): Team {
  const team = useContext(TeamContext);
  if (team === null) throw new Error("useTeam outside of a chat");
  return team;
}

const COLOURS = [
  "bg-accent-soft text-accent-ink",
  "bg-info-soft text-info",
  "bg-good-soft text-good",
  "bg-warn-soft text-warn",
  "bg-bad-soft text-bad",
  "bg-calm-soft text-calm",
];

function colourOf(team: Team, name: string): string {
  const at = [team.leader, ...team.workers].findIndex((agent) => agent.name === name);
  return COLOURS[at === -1 ? COLOURS.length - 1 : at % COLOURS.length]!;
}

/** The round sign of an agent; its name stands beside it. */
export function AgentSign({ name, size = "size-7 text-xs" }: { name: string; size?: string }) {
  const team = useTeam();
  const initials = name
    .split(/[^\p{L}\p{N}]+/u)
    .filter(Boolean)
    .slice(0, 2)
    .map((word) => word[0]!.toUpperCase())
    .join("");
  return (
    <span aria-hidden className={clsx("grid shrink-0 place-items-center rounded-full font-semibold", size, colourOf(team, name))}>
      {initials || "?"}
    </span>
  );
}

/** Who did or said it: a colour and a name. */
export function AgentChip({ name }: { name: string }) {
  const team = useTeam();
  return (
    <span className={clsx("inline-flex h-5 max-w-40 items-center rounded-full px-2 text-2xs font-medium", colourOf(team, name))}>
      <span className="truncate">{name}</span>
    </span>
  );
}
