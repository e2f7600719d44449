import { Link, useNavigate } from "@tanstack/react-router";
import clsx from "clsx";
import { ChevronsUpDown } from "lucide-react";

import { $api } from "@/api/client";
import type { Schemas } from "@/api/types";
import { IconButton } from "@/ui/Button";
import { Menu, MenuItem } from "@/ui/Menu";
import { TEAM_STATUSES } from "@/ui/states";

const DOTS = { good: "bg-good", warn: "bg-warn", bad: "bg-bad", info: "bg-info", calm: "bg-line-strong", accent: "bg-accent" };

export function useTeams() {
  return $api.useQuery("get", "/api/teams", { params: { query: { limit: 200 } } });
}

function Dot({ team }: { team: Schemas["TeamRead"] }) {
  const look = TEAM_STATUSES[team.status];
  return <span role="img" aria-label={look.word} title={look.word} className={clsx("size-2 shrink-0 rounded-full", DOTS[look.tone])} />;
}

/** All teams beside the conversation, where there is room. */
export function TeamRail({ current }: { current: string }) {
  const teams = useTeams().data?.items ?? [];
  return (
    <nav aria-label="Teams" className="hidden w-56 shrink-0 flex-col gap-0.5 overflow-y-auto border-r border-line p-3 xl:flex">
      <p className="px-2.5 pb-1.5 text-xs text-faint">Teams</p>
      {teams.map((team) => (
        <Link
          key={team.id}
          to="/chat/$teamId"
          params={{ teamId: team.id }}
          aria-current={team.id === current ? "page" : undefined}
          className="flex h-9 items-center gap-2.5 rounded-md px-2.5 text-sm text-soft hover:bg-hover hover:text-ink aria-[current=page]:bg-hover aria-[current=page]:font-medium aria-[current=page]:text-ink"
        >
          <Dot team={team} />
          <span className="truncate">{team.name}</span>
        </Link>
      ))}
    </nav>
  );
}

/** The same as a menu, where there is none. */
export function TeamSwitch({ current }: { current: string }) {
  const navigate = useNavigate();
  const teams = useTeams().data?.items ?? [];
  if (teams.length < 2) return null;
  return (
    <span className="xl:hidden">
      <Menu
        align="start"
        trigger={
          <IconButton label="Talk to another team" size="small">
            <ChevronsUpDown size={15} />
          </IconButton>
        }
      >
        {teams.map((team) => (
          <MenuItem key={team.id} icon={<Dot team={team} />} disabled={team.id === current} onSelect={() => void navigate({ to: "/chat/$teamId", params: { teamId: team.id } })}>
            {team.name}
          </MenuItem>
        ))}
      </Menu>
    </span>
  );
}
