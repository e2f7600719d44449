import type { Schemas } from "@/api/types";

type Session = Pick<Schemas["SessionRead"], "state" | "waiting_for">;

export type Action =
  | "run"
  | "pause"
  | "resume"
  | "cancel"
  | "continue"
  | "fork"
  | "rollback"
  | "restore"
  | "checkpoint"
  | "budget";

/** What can be done, or why it cannot be done now; what is not there makes no sense in this state. */
export type Allowed = Partial<Record<Action, { blocked?: string }>>;

interface May {
  sessions: boolean;
  budgets: boolean;
}

const ENDED = new Set(["COMPLETE", "FAILED", "ROLLED_BACK"]);
const WORKED_ON = new Set(["RUNNING", "CHECKPOINT", "GATE_CHECK", "ROLLBACK"]);
// It goes on by itself when this is there; resuming it would be refused.
const COMES_BY_ITSELF = new Set(["approval", "children"]);

/** Whether nothing happens to it unless somebody asks for it. */
export function hasEnded(session: Session): boolean {
  return ENDED.has(session.state);
}

/** Whether a worker is at it right now. */
export function isWorkedOn(session: Session): boolean {
  return WORKED_ON.has(session.state);
}

/** What somebody may do with a session in this state. The server decides; this only hides. */
export function allowedActions(session: Session, may: May): Allowed {
  if (!may.sessions) return {};
  const { state } = session;
  const ended = hasEnded(session);
  const stopped = ended || state === "PAUSED";
  const allowed: Allowed = { checkpoint: {}, fork: {} };
  if (state === "CREATED") allowed.run = {};
  if (["QUEUED", "RUNNING", "CHECKPOINT", "GATE_CHECK"].includes(state)) allowed.pause = {};
  if (state === "PAUSED" && !COMES_BY_ITSELF.has(session.waiting_for ?? "")) allowed.resume = {};
  if (!ended) allowed.cancel = {};
  if (ended) allowed.continue = {};
  if (state !== "CREATED") {
    const blocked = stopped ? {} : { blocked: "Pause it first." };
    allowed.rollback = blocked;
    allowed.restore = blocked;
  }
  if (may.budgets && !ended) allowed.budget = {};
  return allowed;
}
