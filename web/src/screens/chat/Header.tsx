import { Link, useNavigate } from "@tanstack/react-router";
import { Play, Search as SearchIcon, X } from "lucide-react";
import { useEffect, useRef, useState } from "react";

import { $api } from "@/api/client";
import { useMay } from "@/api/session";
import { useShortcut } from "@/shell/shortcuts";
import { Button, IconButton, LinkButton } from "@/ui/Button";
import { CopyCurl } from "@/ui/Copy";
import { Problem } from "@/ui/Problem";
import { TeamBadge } from "@/ui/states";

import { AgentSign, useTeam } from "./agents";
import { TeamSwitch } from "./Teams";

/** Who is talked to, how they are, and the search in the conversation. */
export function Header({ q }: { q: string | undefined }) {
  const team = useTeam();
  useEffect(() => {
    document.title = `${team.name} · AgentOS`;
  }, [team.name]);
  return (
    <header className="grid gap-2 border-b border-line px-4 py-3">
      <div className="flex min-w-0 items-center gap-3">
        <h1 className="min-w-0 truncate text-lg font-semibold">
          <Link to="/teams/$teamId" params={{ teamId: team.id }} className="block min-h-6 truncate rounded-sm hover:underline">
            {team.name}
          </Link>
        </h1>
        <TeamBadge team={team} />
        <TeamSwitch current={team.id} />
        <div className="ml-auto flex shrink-0 items-center gap-1">
          <span className="hidden sm:block">
            <Crew />
          </span>
          <span className="hidden lg:block">
            <CopyCurl method="POST" path={`/api/teams/${team.id}/messages`} body={{ text: "Hello" }} />
          </span>
          <Find q={q} />
        </div>
      </div>
    </header>
  );
}

/** Who is in the team. */
function Crew() {
  const team = useTeam();
  const agents = [team.leader, ...team.workers];
  const names = agents.map((agent) => (agent.leader ? `${agent.name}, the leader` : agent.name)).join("; ");
  return (
    <LinkButton to="/teams/$teamId" params={{ teamId: team.id }} look="quiet" size="small">
      <span className="flex -space-x-1.5" title={names}>
        {agents.slice(0, 4).map((agent) => (
          <AgentSign key={agent.name} name={agent.name} size="size-6 text-2xs ring-2 ring-page" />
        ))}
      </span>
      <span>
        {agents.length}
        <span className="sr-only"> in the team: {names}</span>
      </span>
    </LinkButton>
  );
}

/** Words to look for; they stand in the address. */
function Find({ q }: { q: string | undefined }) {
  const team = useTeam();
  const navigate = useNavigate();
  const [open, setOpen] = useState(q !== undefined);
  const [words, setWords] = useState(q ?? "");
  const field = useRef<HTMLInputElement>(null);
  const go = (next: string | undefined) => void navigate({ to: "/chat/$teamId", params: { teamId: team.id }, search: { q: next }, replace: q !== undefined });
  const start = () => {
    setOpen(true);
    requestAnimationFrame(() => field.current?.focus());
  };
  useShortcut("/", "Search this conversation", start);
  useEffect(() => {
    if (q === undefined) setOpen(false);
    setWords(q ?? "");
  }, [q]);
  useEffect(() => {
    const wanted = words.trim() || undefined;
    if (!open || wanted === q) return;
    const timer = setTimeout(() => go(wanted), 250);
    return () => clearTimeout(timer);
  });
  const close = () => {
    setOpen(false);
    setWords("");
    if (q !== undefined) go(undefined);
  };
  if (!open) {
    return (
      <IconButton label="Search this conversation" onClick={start}>
        <SearchIcon size={17} />
      </IconButton>
    );
  }
  return (
    <search className="flex items-center gap-1">
      <input
        ref={field}
        type="search"
        aria-label="Search this conversation"
        placeholder="Search"
        value={words}
        onChange={(event) => setWords(event.target.value)}
        onKeyDown={(event) => event.key === "Escape" && close()}
        className="h-9 w-36 rounded-md border border-line-strong bg-surface px-3 text-base placeholder:text-faint sm:w-56 [&::-webkit-search-cancel-button]:hidden"
      />
      <IconButton label="Close the search" onClick={close}>
        <X size={16} />
      </IconButton>
    </search>
  );
}

/** Says that nobody will answer, and lets the team be deployed. */
export function StandingBar() {
  const team = useTeam();
  const may = useMay("teams:write");
  const deploy = $api.useMutation("post", "/api/teams/{team_id}/deploy");
  const trouble = !team.deployed || ["error", "crash_loop", "repairing", "degraded"].includes(team.status);
  if (!trouble) return null;
  const actions = may && (!team.deployed || team.status === "error");
  return (
    <div className="grid gap-2 border-b border-line bg-warn-soft px-4 py-2.5 text-sm">
      <div className="flex flex-wrap items-center gap-x-4 gap-y-2">
        <p className="min-w-0 flex-1 break-words">
          {team.deployed ? (team.reason ?? "The team has trouble at the moment; messages wait until it is well.") : "This team is stopped. Messages are kept and answered once it is deployed."}
        </p>
        {actions && (
          <Button
            look="primary"
            size="small"
            icon={<Play size={14} />}
            busy={deploy.isPending}
            onClick={() => deploy.mutate({ params: { path: { team_id: team.id } } })}
          >
            Deploy
          </Button>
        )}
      </div>
      {deploy.error ? <Problem error={deploy.error} /> : null}
    </div>
  );
}
