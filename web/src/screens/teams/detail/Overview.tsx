import { Link } from "@tanstack/react-router";

import { $api } from "@/api/client";
import { useMay } from "@/api/session";
import { formatCount, formatMoney, plural } from "@/lib/format";
import { Figure, Section } from "@/ui/Card";
import { Problem } from "@/ui/Problem";
import { Skeleton } from "@/ui/Skeleton";
import { TeamBadge } from "@/ui/states";
import { Time } from "@/ui/Time";

import { OrgChart } from "../OrgChart";
import { CONTROL_MEANS } from "../TeamControls";
import type { TeamDetails } from "../teamQueries";
import { isTroubled, STATUS_MEANS } from "../words";
import { RecentMessages } from "./RecentMessages";
import { Triggers } from "./Triggers";

/** How a team is, who is in it, what it costs and what it was asked lately. */
export function Overview({ team }: { team: TeamDetails }) {
  const maySchedules = useMay("schedules:read");
  const mayWebhooks = useMay("webhooks:read");
  const mayMessages = useMay("messages:read");
  const mayUsage = useMay("usage:read");
  return (
    <div className="grid items-start gap-5 lg:grid-cols-[minmax(0,2fr)_minmax(18rem,1fr)]">
      <div className="grid min-w-0 gap-5">
        <Section title="Who is in it" note="Messages go to the leader, who hands parts of the work to the workers.">
          <OrgChart
            leader={team.leader}
            workers={team.workers}
            linkTo={(agent, box) => (
              <Link
                to="/teams/$teamId"
                params={{ teamId: team.id }}
                search={{ tab: "agents", agent: agent.name }}
                className="block h-full rounded-md transition-shadow hover:shadow-float"
              >
                {box}
              </Link>
            )}
          />
        </Section>
        {mayMessages && <RecentMessages team={team} />}
      </div>
      <div className="grid min-w-0 gap-5">
        <Status team={team} />
        {mayUsage && <Cost teamId={team.id} />}
        {(maySchedules || mayWebhooks) && <Triggers teamId={team.id} schedules={maySchedules} webhooks={mayWebhooks} />}
      </div>
    </div>
  );
}

function Status({ team }: { team: TeamDetails }) {
  const behind = team.provider !== "native" && team.deployed && team.applied_version > 0 && team.applied_version < team.version;
  const failed = team.status === "error";
  const controls = failed ? (["deploy", "stop"] as const) : team.deployed ? (["stop", "restart"] as const) : (["deploy"] as const);
  const words = { stop: "Stop", restart: "Restart", deploy: failed ? "Try again" : "Deploy" };
  return (
    <Section title="Status">
      <div className="grid gap-3 text-sm">
        <div className="flex items-center gap-2">
          <TeamBadge team={team} />
          <span className="text-xs text-soft">
            <Time at={team.status_at} />
          </span>
        </div>
        <p className="break-words">{STATUS_MEANS[team.status]}</p>
        {team.reason && !isTroubled(team) && <p className="text-xs break-words text-soft">{team.reason}</p>}
        {team.waiting > 0 && (
          <p>
            {plural(team.waiting, "message")} {team.deployed ? "open" : "waiting until it is deployed"}.
          </p>
        )}
        <dl className="grid grid-cols-[6rem_1fr] gap-x-3 gap-y-1.5 border-t border-line pt-3 text-sm [&_dt]:text-faint">
          <dt>Version</dt>
          <dd>
            {team.version}
            {behind && <span className="block text-xs text-warn">It works by version {team.applied_version}; changes act on the next message.</span>}
          </dd>
          <dt>Model</dt>
          <dd className="break-words">{team.model === "auto" ? "auto: the first of your models" : team.model}</dd>
          {team.session_id && (
            <>
              <dt>Session</dt>
              <dd>
                <Link to="/sessions/$sessionId" params={{ sessionId: team.session_id }} className="text-accent-ink underline">
                  Steps, files and cost
                </Link>
              </dd>
            </>
          )}
          <dt>Made</dt>
          <dd className="break-words">
            <Time at={team.created_at} /> by {team.created_by}
          </dd>
        </dl>
        <ul className="grid gap-1 border-t border-line pt-3 text-xs text-soft">
          {controls.map((name) => (
            <li key={name}>
              <span className="font-medium text-ink">{words[name]}:</span> {CONTROL_MEANS[name]}
            </li>
          ))}
        </ul>
      </div>
    </Section>
  );
}

function Cost({ teamId }: { teamId: string }) {
  const query = $api.useQuery("get", "/api/usage", { params: { query: { team_id: teamId } } });
  const totals = query.data?.totals;
  return (
    <Section title="Cost" note="This month">
      {query.isError && <Problem error={query.error} retry={() => void query.refetch()} />}
      {query.isPending && <Skeleton className="h-12" />}
      {totals && (
        <dl className="grid grid-cols-3 gap-3">
          <Figure name="Spent" value={formatMoney(totals.cost_micros)} />
          <Figure name="Calls" value={formatCount(totals.calls)} />
          <Figure name="Tokens" value={formatCount(totals.input_tokens + totals.output_tokens)} />
        </dl>
      )}
    </Section>
  );
}
