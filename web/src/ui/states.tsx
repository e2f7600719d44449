import type { Schemas } from "@/api/types";

import { Badge, type Tone } from "./Badge";

interface Look {
  tone: Tone;
  word: string;
  alive?: boolean;
}

type SessionState = Schemas["State"];
type TeamStatus = Schemas["TeamRead"]["status"];
type MessageState = Schemas["MessageRead"]["state"];
type RunState = Schemas["RunRead"]["state"];
type ChainState = "CREATED" | "RUNNING" | "COMPLETE" | "FAILED" | "CANCELLED" | "PENDING" | "SKIPPED";

export const SESSION_STATES: Record<SessionState, Look> = {
  CREATED: { tone: "calm", word: "Created" },
  QUEUED: { tone: "calm", word: "Queued", alive: true },
  RUNNING: { tone: "info", word: "Running", alive: true },
  CHECKPOINT: { tone: "info", word: "Checkpoint", alive: true },
  GATE_CHECK: { tone: "info", word: "Gate check", alive: true },
  COMPLETE: { tone: "good", word: "Complete" },
  PAUSED: { tone: "warn", word: "Paused" },
  FAILED: { tone: "bad", word: "Failed" },
  ROLLBACK: { tone: "info", word: "Rolling back", alive: true },
  ROLLED_BACK: { tone: "calm", word: "Rolled back" },
};

const WAITING: Record<string, Look> = {
  pause: { tone: "warn", word: "Paused" },
  approval: { tone: "warn", word: "Needs you" },
  children: { tone: "info", word: "Waits for sub-agents", alive: true },
  budget: { tone: "bad", word: "Out of budget" },
  retry: { tone: "warn", word: "Waits to retry" },
};

export const TEAM_STATUSES: Record<TeamStatus, Look> = {
  stopped: { tone: "calm", word: "Stopped" },
  starting: { tone: "info", word: "Starting", alive: true },
  running: { tone: "good", word: "Running" },
  degraded: { tone: "warn", word: "Degraded" },
  crash_loop: { tone: "bad", word: "Crash loop" },
  repairing: { tone: "warn", word: "Repairing", alive: true },
  error: { tone: "bad", word: "Error" },
};

export const MESSAGE_STATES: Record<MessageState, Look> = {
  queued: { tone: "calm", word: "Queued" },
  running: { tone: "info", word: "Answering", alive: true },
  answered: { tone: "good", word: "Answered" },
  failed: { tone: "bad", word: "Failed" },
  cancelled: { tone: "calm", word: "Cancelled" },
  uncertain: { tone: "warn", word: "Uncertain" },
};

export const RUN_STATES: Record<RunState, Look> = {
  queued: { tone: "calm", word: "Queued" },
  running: { tone: "info", word: "Running", alive: true },
  succeeded: { tone: "good", word: "Succeeded" },
  failed: { tone: "bad", word: "Failed" },
  cancelled: { tone: "calm", word: "Cancelled" },
  uncertain: { tone: "warn", word: "Uncertain" },
  skipped: { tone: "calm", word: "Skipped" },
};

export const CHAIN_STATES: Record<ChainState, Look> = {
  CREATED: { tone: "calm", word: "Created" },
  PENDING: { tone: "calm", word: "Pending" },
  RUNNING: { tone: "info", word: "Running", alive: true },
  COMPLETE: { tone: "good", word: "Complete" },
  FAILED: { tone: "bad", word: "Failed" },
  SKIPPED: { tone: "calm", word: "Skipped" },
  CANCELLED: { tone: "calm", word: "Cancelled" },
};

function LookBadge({ look, title }: { look: Look; title?: string | undefined }) {
  return (
    <Badge tone={look.tone} dot alive={look.alive} title={title}>
      {look.word}
    </Badge>
  );
}

export function SessionBadge({ session }: { session: Pick<Schemas["SessionRead"], "state" | "waiting_for"> }) {
  const waiting = session.state === "PAUSED" && session.waiting_for ? WAITING[session.waiting_for] : undefined;
  return <LookBadge look={waiting ?? SESSION_STATES[session.state]} />;
}

export function TeamBadge({ team }: { team: Pick<Schemas["TeamRead"], "status" | "reason"> }) {
  return <LookBadge look={TEAM_STATUSES[team.status]} title={team.reason ?? undefined} />;
}

export function MessageBadge({ state }: { state: MessageState }) {
  return <LookBadge look={MESSAGE_STATES[state]} />;
}

export function RunBadge({ state }: { state: RunState }) {
  return <LookBadge look={RUN_STATES[state]} />;
}

export function ChainBadge({ state }: { state: ChainState }) {
  return <LookBadge look={CHAIN_STATES[state]} />;
}
