import { useQuery } from "@tanstack/react-query";
import { Link, Navigate } from "@tanstack/react-router";
import { Activity, ChevronRight, CircleCheck, Inbox, Play, Plus, SquareActivity, TriangleAlert, Users } from "lucide-react";
import { type ReactNode, useState } from "react";

import { $api } from "@/api/client";
import { useMay, useMe } from "@/api/session";
import type { Schemas } from "@/api/types";
import { serverUrl } from "@/lib/base";
import { formatCount, formatMoney, plural } from "@/lib/format";
import { useEvents, useLiveState } from "@/live/LiveProvider";
import type { TenantEvent } from "@/live/socket";
import { Page } from "@/shell/Page";
import { Badge } from "@/ui/Badge";
import { LinkButton } from "@/ui/Button";
import { Card, Section } from "@/ui/Card";
import { Meter } from "@/ui/Meter";
import { Problem } from "@/ui/Problem";
import { Skeleton, SkeletonRows } from "@/ui/Skeleton";
import { SessionBadge, TeamBadge } from "@/ui/states";
import { Time } from "@/ui/Time";

import { useFirstSteps } from "./firstSteps";
import { tellEvent } from "./sentences";

const LIVE_STATES: Schemas["State"][] = ["RUNNING", "QUEUED", "CHECKPOINT", "GATE_CHECK", "ROLLBACK"];

/** What runs, what needs you, what it costs, what happened. */
export function Home() {
  const me = useMe();
  const firstSteps = useFirstSteps();
  const mayStart = useMay("sessions:write");
  if (firstSteps) return <Navigate to="/welcome" replace />;
  return (
    <Page
      wide
      title="Home"
      heading={`Good ${partOfDay()}, ${me.name.split(" ")[0]}`}
      note={`${me.tenant_name}, ${me.plan} plan`}
      actions={
        mayStart && (
          <LinkButton to="/sessions/new" look="primary" icon={<Play size={15} />}>
            Start a session
          </LinkButton>
        )
      }
    >
      <div className="grid grid-cols-2 gap-3 md:gap-4 xl:grid-cols-4">
        <RunningFigure />
        <WaitingFigure />
        <SpendFigure />
        <HealthFigure />
      </div>
      <div className="grid items-start gap-5 lg:grid-cols-[minmax(0,3fr)_minmax(0,2fr)]">
        <div className="grid gap-5">
          <NeedsYou />
          <LatestSessions />
        </div>
        <div className="grid gap-5">
          <TeamsNow />
          <RecentActivity />
        </div>
      </div>
    </Page>
  );
}

function partOfDay(): string {
  const hour = new Date().getHours();
  return hour < 5 || hour >= 18 ? "evening" : hour < 12 ? "morning" : "afternoon";
}

interface TileProps {
  name: string;
  value: ReactNode;
  note: ReactNode;
  children?: ReactNode;
}

function Tile({ name, value, note, children }: TileProps) {
  return (
    <Card className="grid min-h-28 content-between gap-2 p-4">
      <p className="text-xs font-medium text-faint">{name}</p>
      <div className="text-2xl font-semibold tracking-tight tabular">{value}</div>
      {children}
      <p className="text-xs text-soft">{note}</p>
    </Card>
  );
}

function RunningFigure() {
  const sessions = $api.useQuery("get", "/api/sessions", { params: { query: { state: LIVE_STATES, limit: 100 } } });
  const teams = $api.useQuery("get", "/api/teams", { params: { query: { limit: 100 } } });
  const running = sessions.data?.items.length ?? 0;
  const up = teams.data?.items.filter((team) => team.status === "running").length ?? 0;
  return (
    <Tile
      name="Running now"
      value={sessions.isPending ? <Skeleton className="h-9 w-12" /> : `${formatCount(running)}${sessions.data?.next_cursor ? "+" : ""}`}
      note={`${plural(running, "session")}, ${plural(up, "team")} deployed`}
    />
  );
}

function WaitingFigure() {
  const waiting = $api.useQuery("get", "/api/approvals", { params: { query: { state: "waiting", limit: 50 } } });
  const count = waiting.data?.items.length ?? 0;
  return (
    <Tile
      name="Needs you"
      value={
        waiting.isPending ? (
          <Skeleton className="h-9 w-12" />
        ) : (
          <Link to="/needs-you" className={count ? "text-warn underline decoration-2 underline-offset-4" : ""}>
            {count}
            {waiting.data?.next_cursor && "+"}
          </Link>
        )
      }
      note={count ? "Agents wait for an answer" : "Nothing waits for you"}
    />
  );
}

function firstOfMonth(): string {
  const now = new Date();
  return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), 1)).toISOString().slice(0, 10);
}

function SpendFigure() {
  const usage = $api.useQuery("get", "/api/usage", { params: { query: { from: firstOfMonth(), by: "day" } } });
  const budgets = $api.useQuery("get", "/api/budgets", { params: { query: { scope: "tenant" } } });
  const budget = budgets.data?.items[0];
  const spent = budget ? budget.spent_micros : usage.data?.totals.cost_micros;
  return (
    <Tile
      name="Spent this month"
      value={usage.isPending || budgets.isPending ? <Skeleton className="h-9 w-24" /> : formatMoney(spent)}
      note={<SpendNote budget={budget} />}
    >
      {budget && <Meter label="Budget used" value={budget.spent_micros + budget.held_micros} max={budget.cap_micros} />}
    </Tile>
  );
}

function SpendNote({ budget }: { budget: Schemas["BudgetRead"] | undefined }) {
  if (!budget) {
    return (
      <>
        No budget.{" "}
        <Link to="/settings/$section" params={{ section: "budgets" }} className="text-accent-ink underline">
          Set one
        </Link>
      </>
    );
  }
  const warning = budget.state === "exhausted" ? ", used up" : budget.state === "warned" ? ", nearly used up" : "";
  return <>{`${budget.percent} % of ${formatMoney(budget.cap_micros)}${warning}`}</>;
}

function useHealth() {
  return useQuery({
    queryKey: ["health"],
    refetchInterval: 30_000,
    queryFn: async () => {
      const response = await fetch(serverUrl("/health/ready"));
      return (await response.json()) as Schemas["Readiness"];
    },
  });
}

function HealthFigure() {
  const health = useHealth();
  const live = useLiveState();
  const parts = health.data ? Object.entries(health.data).filter(([name]) => name !== "status") : [];
  const broken = parts.filter(([, state]) => state !== "ok").map(([name]) => name);
  const well = health.data !== undefined && broken.length === 0 && live !== "away";
  return (
    <Tile
      name="Health"
      value={
        health.isPending ? (
          <Skeleton className="h-9 w-20" />
        ) : (
          <span className="flex items-center gap-2">
            {well ? <CircleCheck size={22} className="text-good" aria-hidden /> : <TriangleAlert size={22} className="text-warn" aria-hidden />}
            {well ? "All well" : "Trouble"}
          </span>
        )
      }
      note={
        health.isError
          ? "The server does not answer"
          : broken.length
            ? `Not available: ${broken.join(", ")}`
            : live === "live"
              ? "Database, bus and live events"
              : "Live events are connecting"
      }
    />
  );
}

function NeedsYou() {
  const waiting = $api.useQuery("get", "/api/approvals", { params: { query: { state: "waiting", limit: 5 } } });
  if (!waiting.data?.items.length) return null;
  return (
    <Section
      title="Needs you"
      actions={
        <LinkButton to="/needs-you" size="small" look="quiet" icon={<Inbox size={14} />}>
          Open all
        </LinkButton>
      }
    >
      <ul className="-mx-2 grid">
        {waiting.data.items.map((approval) => (
          <li key={approval.id}>
            <Link to="/needs-you" search={{ id: approval.id }} className="flex items-center gap-3 rounded-md px-2 py-2 hover:bg-hover">
              <span className="w-20 shrink-0">
                <Badge tone="warn">{approval.kind === "question" ? "Question" : approval.kind === "gate" ? "Gate" : "Tool"}</Badge>
              </span>
              <span className="min-w-0 flex-1">
                <span className="block truncate text-sm font-medium">{approval.subject}</span>
                <span className="block truncate text-xs text-faint">{approval.team_name ?? approval.session_title}</span>
              </span>
              <ChevronRight size={16} className="text-faint" aria-hidden />
            </Link>
          </li>
        ))}
      </ul>
    </Section>
  );
}

function LatestSessions() {
  const sessions = $api.useQuery("get", "/api/sessions", { params: { query: { limit: 8 } } });
  const mayStart = useMay("sessions:write");
  return (
    <Section
      title="Latest sessions"
      actions={
        <LinkButton to="/sessions" size="small" look="quiet" icon={<SquareActivity size={14} />}>
          All sessions
        </LinkButton>
      }
    >
      {sessions.isPending && <SkeletonRows rows={4} className="h-11" />}
      {sessions.isError && <Problem error={sessions.error} retry={() => void sessions.refetch()} />}
      {sessions.data?.items.length === 0 && (
        <div className="grid justify-items-start gap-3 text-sm text-soft">
          <p>No session yet. A session is one piece of work that an agent does to its end.</p>
          {mayStart && (
            <LinkButton to="/sessions/new" icon={<Play size={15} />}>
              Start the first
            </LinkButton>
          )}
        </div>
      )}
      <ul className="-mx-2 grid">
        {sessions.data?.items.map((session) => (
          <li key={session.id}>
            <Link to="/sessions/$sessionId" params={{ sessionId: session.id }} className="flex items-center gap-3 rounded-md px-2 py-2 hover:bg-hover">
              <span className="min-w-0 flex-1">
                <span className="block truncate text-sm font-medium">{session.title}</span>
                <span className="block truncate text-xs text-faint">
                  {session.model}, {plural(session.steps, "step")}, {formatMoney(session.cost_micros)}
                </span>
              </span>
              <SessionBadge session={session} />
              <Time at={session.updated_at} className="w-28 text-right text-xs text-faint max-sm:hidden" />
            </Link>
          </li>
        ))}
      </ul>
    </Section>
  );
}

function TeamsNow() {
  const teams = $api.useQuery("get", "/api/teams", { params: { query: { limit: 100 } } });
  const mayCreate = useMay("teams:write");
  return (
    <Section
      title="Teams"
      actions={
        mayCreate && (
          <LinkButton to="/teams/new" size="small" look="quiet" icon={<Plus size={14} />}>
            New team
          </LinkButton>
        )
      }
    >
      {teams.isPending && <SkeletonRows rows={3} className="h-10" />}
      {teams.isError && <Problem error={teams.error} retry={() => void teams.refetch()} />}
      {teams.data?.items.length === 0 && (
        <div className="grid justify-items-start gap-3 text-sm text-soft">
          <p>No team yet. A team is a leader and workers you can chat with.</p>
          {mayCreate && (
            <LinkButton to="/teams/new" icon={<Users size={15} />}>
              Create a team
            </LinkButton>
          )}
        </div>
      )}
      <ul className="-mx-2 grid">
        {teams.data?.items.slice(0, 6).map((team) => (
          <li key={team.id}>
            <Link to="/chat/$teamId" params={{ teamId: team.id }} className="flex items-center gap-3 rounded-md px-2 py-2 hover:bg-hover">
              <span className="min-w-0 flex-1">
                <span className="block truncate text-sm font-medium">{team.name}</span>
                <span className="block truncate text-xs text-faint">
                  {team.waiting ? `${plural(team.waiting, "message")} waiting` : plural(team.agents, "agent")}
                </span>
              </span>
              <TeamBadge team={team} />
            </Link>
          </li>
        ))}
      </ul>
    </Section>
  );
}

function RecentActivity() {
  const events = $api.useQuery("get", "/api/events", { params: { query: { newest: 60 } } }, { staleTime: 0 });
  const [fresh, setFresh] = useState<TenantEvent[]>([]);
  useEvents([""], (event) => setFresh((before) => [...before.slice(-60), event]));
  const last = events.data?.items.at(-1)?.seq ?? 0;
  const told = [...(events.data?.items ?? []), ...fresh.filter((event) => event.seq > last)]
    .toReversed()
    .map((event) => ({ event, told: tellEvent(event) }))
    .filter((each) => each.told !== undefined)
    .slice(0, 12);
  return (
    <Section title="Recent activity">
      {events.isPending && <SkeletonRows rows={5} className="h-6" />}
      {events.isError && <Problem error={events.error} retry={() => void events.refetch()} />}
      {events.isSuccess && told.length === 0 && <p className="text-sm text-soft">Nothing has happened yet.</p>}
      <ol className="grid gap-2.5">
        {told.map(({ event, told: line }) => (
          <li key={event.id} className="flex items-baseline gap-3 text-sm">
            <Activity size={13} className="shrink-0 translate-y-0.5 text-faint" aria-hidden />
            <span className="min-w-0 flex-1 break-words">
              {line!.link ? (
                <Link to={line!.link.to} params={line!.link.params} className="rounded-sm hover:underline">
                  {line!.text}
                </Link>
              ) : (
                line!.text
              )}
            </span>
            <Time at={event.at} className="shrink-0 text-xs text-faint" />
          </li>
        ))}
      </ol>
    </Section>
  );
}
