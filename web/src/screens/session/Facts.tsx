import { Link, type LinkProps } from "@tanstack/react-router";
import { Bot, Clock, Coins, GitFork, Hourglass, MessagesSquare, Network, Users, Workflow } from "lucide-react";
import type { LucideIcon } from "lucide-react";
import type { ReactNode } from "react";

import { $api } from "@/api/client";
import type { Schemas } from "@/api/types";
import { formatCount, formatDuration, formatMoney, plural } from "@/lib/format";
import { Time } from "@/ui/Time";

type Session = Schemas["SessionDetails"];

interface Props {
  session: Session;
  /** The model that gave the last answer, which `auto` has stood for. */
  answered: string | undefined;
}

/** What there is to know about a session at a glance, and where it comes from. */
export function Facts({ session, answered }: Props) {
  return (
    <div className="-mt-3 flex flex-wrap items-center gap-x-4 gap-y-1.5 text-sm text-soft">
      <Fact icon={Bot} name="Model">
        {session.model === "auto" && answered ? `auto: ${answered}` : session.model}
      </Fact>
      <Fact icon={Clock} name="Started">
        {session.started_at ? <Time at={session.started_at} /> : "not started"}
      </Fact>
      <Fact icon={Hourglass} name="Ran">
        <span className="tabular">ran {formatDuration(session.ran_ms)}</span>
      </Fact>
      <Fact icon={MessagesSquare} name="Turns and tokens">
        <span className="tabular">
          {plural(session.turns, "turn")}, {formatCount(session.tokens)} tokens
        </span>
      </Fact>
      <Fact icon={Coins} name="Cost">
        <span className="tabular">{formatMoney(session.cost_micros)}</span>
      </Fact>
      {session.team_id && <TeamFact teamId={session.team_id} />}
      {session.chain_id && <ChainFact chainId={session.chain_id} node={session.chain_node} />}
      {session.parent_id && <SessionFact icon={Workflow} word="Sub-agent of" sessionId={session.parent_id} />}
      {session.forked_from && <SessionFact icon={GitFork} word="Forked from" sessionId={session.forked_from} step={session.forked_seq} />}
    </div>
  );
}

function Fact({ icon: Icon, name, children }: { icon: LucideIcon; name: string; children: ReactNode }) {
  return (
    <span className="inline-flex min-w-0 items-center gap-1.5" title={name}>
      <Icon size={14} className="shrink-0 text-faint" aria-label={name} />
      <span className="min-w-0 break-words">{children}</span>
    </span>
  );
}

function FactLink({ icon, word, link, name }: { icon: LucideIcon; word: string; link: LinkProps; name: string }) {
  return (
    <Fact icon={icon} name={word}>
      {word}{" "}
      <Link {...link} className="text-accent-ink underline">
        {name}
      </Link>
    </Fact>
  );
}

function TeamFact({ teamId }: { teamId: string }) {
  const team = $api.useQuery("get", "/api/teams/{team_id}", { params: { path: { team_id: teamId } } }).data;
  return <FactLink icon={Users} word="Team" link={{ to: "/teams/$teamId", params: { teamId } }} name={team?.name ?? "…"} />;
}

function ChainFact({ chainId, node }: { chainId: string; node: string | null }) {
  const chain = $api.useQuery("get", "/api/chains/{chain_id}", { params: { path: { chain_id: chainId } } }).data;
  const name = chain?.name ?? "…";
  return <FactLink icon={Network} word="Chain" link={{ to: "/chains/$chainId", params: { chainId }, search: node ? { node } : {} }} name={node ? `${name}, node ${node}` : name} />;
}

function SessionFact({ icon, word, sessionId, step }: { icon: LucideIcon; word: string; sessionId: string; step?: number | null }) {
  const { data, error } = $api.useQuery("get", "/api/sessions/{session_id}", { params: { path: { session_id: sessionId } } });
  const name = data?.title ?? (error ? "a session that is gone" : "…");
  const search = step ? { step } : {};
  return <FactLink icon={icon} word={word} link={{ to: "/sessions/$sessionId", params: { sessionId }, search }} name={step ? `${name}, step ${step}` : name} />;
}
