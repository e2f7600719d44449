import { getRouteApi } from "@tanstack/react-router";
import { MessageSquare, TriangleAlert } from "lucide-react";
import { useEffect } from "react";

import { problemOf } from "@/api/problem";
import { useMay } from "@/api/session";
import { Page } from "@/shell/Page";
import { Missing } from "@/shell/Trouble";
import { LinkButton } from "@/ui/Button";
import { Problem } from "@/ui/Problem";
import { Skeleton } from "@/ui/Skeleton";
import { TeamBadge } from "@/ui/states";
import { Tabs } from "@/ui/Tabs";

import { AgentsTab } from "./detail/AgentsTab";
import { LogsTab } from "./detail/LogsTab";
import { McpTab } from "./detail/McpTab";
import { Overview } from "./detail/Overview";
import { SettingsTab } from "./detail/SettingsTab";
import { SkillsTab } from "./detail/SkillsTab";
import { TeamControls } from "./TeamControls";
import { TeamMenu } from "./TeamMenu";
import { type TeamDetails, useTeam } from "./teamQueries";
import { isTroubled, placeOf, STATUS_MEANS } from "./words";

const route = getRouteApi("/inside/teams/$teamId");
const crumbs = [{ name: "Teams", link: { to: "/teams" as const } }];

const TABS = {
  overview: "Overview",
  agents: "Agents",
  skills: "Skills",
  mcp: "MCP servers",
  logs: "Logs",
  settings: "Settings",
};
const PARTS = "Parts of the team";
type TabName = keyof typeof TABS;

/** One team: how it is, who is in it, and everything about it that can be changed. */
export function Team() {
  const { teamId } = route.useParams();
  const query = useTeam(teamId);
  if (query.data) return <TeamPage key={teamId} team={query.data} />;
  if (query.isError && [404, 422].includes(problemOf(query.error).status)) return <Missing />;
  return (
    <Page wide title="Team" crumbs={crumbs}>
      {query.isError ? <Problem error={query.error} retry={() => void query.refetch()} /> : <Loading />}
    </Page>
  );
}

function TeamPage({ team }: { team: TeamDetails }) {
  const { tab: asked } = route.useSearch();
  const tab: TabName = asked !== undefined && asked in TABS ? (asked as TabName) : "overview";
  const mayChat = useMay("messages:read");
  useEffect(() => {
    // On a phone the tabs are wider than the window.
    document.querySelector(`nav[aria-label="${PARTS}"] [aria-current]`)?.scrollIntoView({ inline: "nearest", block: "nearest" });
  }, [tab]);
  const failed = team.status === "error";
  const counts: Partial<Record<TabName, number>> = { agents: team.agents, skills: team.skills.length, mcp: team.mcp_servers.length };
  return (
    <Page
      wide
      title={team.name}
      crumbs={crumbs}
      heading={
        <>
          <span className="min-w-0 break-words">{team.name}</span>
          <span aria-live="polite" className="flex">
            <TeamBadge team={team} />
          </span>
        </>
      }
      note={<p>{[placeOf(team), team.description].filter(Boolean).join(" · ")}</p>}
      actions={
        <>
          {mayChat && (
            <LinkButton to="/chat/$teamId" params={{ teamId: team.id }} look={team.deployed && !failed ? "primary" : "plain"} icon={<MessageSquare size={15} aria-hidden />}>
              Chat
            </LinkButton>
          )}
          <TeamControls team={team} primary={!team.deployed || failed} />
          <TeamMenu team={team} />
        </>
      }
    >
      <Trouble team={team} />
      <Tabs
        label={PARTS}
        tabs={(Object.keys(TABS) as TabName[]).map((name) => ({
          name: (
            <>
              {TABS[name]}{" "}
              {counts[name] ? <span className="ml-1 rounded-full bg-hover px-1.5 py-0.5 text-2xs tabular text-soft">{counts[name]}</span> : null}
            </>
          ),
          active: name === tab,
          link: { to: "/teams/$teamId", params: { teamId: team.id }, search: name === "overview" ? {} : { tab: name } },
        }))}
      />
      {tab === "overview" && <Overview team={team} />}
      {tab === "agents" && <AgentsTab team={team} />}
      {tab === "skills" && <SkillsTab team={team} />}
      {tab === "mcp" && <McpTab team={team} />}
      {tab === "logs" && <LogsTab team={team} />}
      {tab === "settings" && <SettingsTab team={team} />}
    </Page>
  );
}

/** Why the team is not well, on whichever part of it one looks. */
function Trouble({ team }: { team: TeamDetails }) {
  if (!isTroubled(team)) return null;
  const bad = team.status === "error" || team.status === "crash_loop";
  return (
    <div role="status" className={`flex items-start gap-3 rounded-lg border border-line p-3.5 text-sm ${bad ? "bg-bad-soft" : "bg-warn-soft"}`}>
      <TriangleAlert size={17} aria-hidden className={`mt-0.5 shrink-0 ${bad ? "text-bad" : "text-warn"}`} />
      <div className="grid min-w-0 gap-0.5">
        <p className="font-medium break-words">{team.reason ?? STATUS_MEANS[team.status]}</p>
        {team.reason && <p className="text-soft">{STATUS_MEANS[team.status]}</p>}
      </div>
    </div>
  );
}

function Loading() {
  return (
    <div role="status" aria-label="Loading" className="grid gap-4 lg:grid-cols-3">
      <Skeleton className="h-9 lg:col-span-3" />
      <Skeleton className="h-72 lg:col-span-2" />
      <Skeleton className="h-72" />
    </div>
  );
}
