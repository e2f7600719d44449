import { Link } from "@tanstack/react-router";
import clsx from "clsx";
import { Mail, MessageSquare, UsersRound } from "lucide-react";

import { useMay } from "@/api/session";
import { plural } from "@/lib/format";
import { LinkButton } from "@/ui/Button";
import { Card } from "@/ui/Card";
import { TeamBadge } from "@/ui/states";
import { Cell, Table } from "@/ui/Table";

import { TeamControls } from "./TeamControls";
import { TeamMenu } from "./TeamMenu";
import type { TeamRead } from "./teamQueries";
import { placeOf } from "./words";

export function TeamCards({ teams }: { teams: TeamRead[] }) {
  return (
    <ul className="grid gap-4 sm:grid-cols-2 xl:grid-cols-3">
      {teams.map((team) => (
        <li key={team.id} className="min-w-0">
          <TeamCard team={team} />
        </li>
      ))}
    </ul>
  );
}

function TeamCard({ team }: { team: TeamRead }) {
  return (
    <Card className="flex h-full flex-col">
      <div className="flex flex-1 flex-col gap-2 p-4">
        <div className="flex items-start justify-between gap-3">
          <h2 className="min-w-0 text-lg leading-snug font-semibold break-words">
            <TeamLink team={team} />
          </h2>
          <TeamBadge team={team} />
        </div>
        {team.description && <p className="line-clamp-2 text-sm text-soft">{team.description}</p>}
        <Reason team={team} />
        <p className="flex flex-wrap items-center gap-x-3 gap-y-1 mt-auto pt-1 text-xs text-soft">
          <span>{placeOf(team)}</span>
          <span className="flex items-center gap-1">
            <UsersRound size={13} aria-hidden /> {plural(team.agents, "agent")}
          </span>
          <Waiting team={team} />
        </p>
      </div>
      <div className="flex flex-wrap items-center gap-2 border-t border-line px-4 py-3">
        <ChatLink team={team} />
        <TeamControls team={team} size="small" />
        <span className="flex-1" />
        <TeamMenu team={team} size="small" />
      </div>
    </Card>
  );
}

export function TeamTable({ teams }: { teams: TeamRead[] }) {
  return (
    <Table label="Teams" head={["Team", "Status", "Provider", "Messages", <span className="sr-only">Actions</span>]}>
      {teams.map((team) => (
        <tr key={team.id}>
          <Cell className="max-w-72 min-w-52">
            <span className="font-medium">
              <TeamLink team={team} />
            </span>
            <p className="truncate text-xs text-soft">{team.description}</p>
          </Cell>
          <Cell className={clsx("max-w-64", team.reason && "min-w-52")}>
            <TeamBadge team={team} />
            <Reason team={team} />
          </Cell>
          <Cell className="whitespace-nowrap">
            {placeOf(team)}
            <p className="text-xs text-soft">{plural(team.agents, "agent")}</p>
          </Cell>
          <Cell className="whitespace-nowrap">{team.waiting > 0 ? <Waiting team={team} /> : <span className="text-faint">none open</span>}</Cell>
          <Cell>
            <div className="flex items-center justify-end gap-2">
              <ChatLink team={team} />
              <TeamControls team={team} size="small" compact />
              <TeamMenu team={team} size="small" />
            </div>
          </Cell>
        </tr>
      ))}
    </Table>
  );
}

function TeamLink({ team }: { team: TeamRead }) {
  return (
    <Link to="/teams/$teamId" params={{ teamId: team.id }} className="rounded-sm hover:text-accent-ink hover:underline">
      {team.name}
    </Link>
  );
}

function ChatLink({ team }: { team: TeamRead }) {
  const may = useMay("messages:read");
  if (!may) return null;
  return (
    <LinkButton to="/chat/$teamId" params={{ teamId: team.id }} size="small" icon={<MessageSquare size={13} aria-hidden />}>
      Chat<span className="sr-only"> with {team.name}</span>
    </LinkButton>
  );
}

/** Why it is as it is, where that is not plain from the status. */
function Reason({ team }: { team: TeamRead }) {
  if (!team.reason) return null;
  const troubled = team.status === "error" || team.status === "crash_loop";
  return (
    <p className={clsx("line-clamp-2 text-xs break-words", troubled ? "text-bad" : "text-soft")} title={team.reason}>
      {team.reason}
    </p>
  );
}

function Waiting({ team }: { team: TeamRead }) {
  if (team.waiting === 0) return null;
  return (
    <span className="flex items-center gap-1 font-medium text-info">
      <Mail size={13} aria-hidden /> {plural(team.waiting, "message")} {team.deployed ? "open" : "waiting"}
    </span>
  );
}
