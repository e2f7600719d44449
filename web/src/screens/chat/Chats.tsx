import { Link, Navigate } from "@tanstack/react-router";
import { MessagesSquare, Plus } from "lucide-react";

import { useMay } from "@/api/session";
import { plural } from "@/lib/format";
import { readStored } from "@/lib/stored";
import { Page } from "@/shell/Page";
import { LinkButton } from "@/ui/Button";
import { Empty } from "@/ui/Empty";
import { Problem } from "@/ui/Problem";
import { SkeletonRows } from "@/ui/Skeleton";
import { TeamBadge } from "@/ui/states";

import { useTeams } from "./Teams";

/** Where this browser keeps which team was last talked to. */
export const LAST_TEAM = "chat.team";

/** Leads to the team that was last talked to, or lets one be chosen. */
export function Chats() {
  const teams = useTeams();
  const items = teams.data?.items ?? [];
  const last = items.find((team) => team.id === readStored(LAST_TEAM)) ?? (items.length === 1 ? items[0] : undefined);
  if (last) return <Navigate to="/chat/$teamId" params={{ teamId: last.id }} replace />;
  return (
    <Page title="Chat" note="Talk to a team: its leader answers, and hands parts of the work to its workers.">
      {teams.isPending && <SkeletonRows rows={4} />}
      {teams.error ? <Problem error={teams.error} retry={() => void teams.refetch()} /> : null}
      {teams.isSuccess && items.length === 0 && <NoTeam />}
      <ul className="grid gap-3 sm:grid-cols-2">
        {items.map((team) => (
          <li key={team.id}>
            <Link to="/chat/$teamId" params={{ teamId: team.id }} className="grid h-full content-start gap-1.5 rounded-lg border border-line bg-surface p-4 shadow-card hover:bg-hover">
              <span className="flex items-center justify-between gap-3">
                <span className="truncate font-semibold">{team.name}</span>
                <TeamBadge team={team} />
              </span>
              <span className="line-clamp-2 text-sm text-soft">{team.description}</span>
              <span className="text-xs text-faint">{plural(team.agents, "agent")}</span>
            </Link>
          </li>
        ))}
      </ul>
    </Page>
  );
}

function NoTeam() {
  const may = useMay("teams:write");
  return (
    <Empty
      icon={MessagesSquare}
      title="There is no team to talk to yet"
      action={
        may && (
          <LinkButton to="/teams/new" look="primary" icon={<Plus size={16} />}>
            Create a team
          </LinkButton>
        )
      }
    >
      A team is a leader and its workers. Take one from a template: with the built-in model it answers at once, without a key.
    </Empty>
  );
}
