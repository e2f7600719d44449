import type { Schemas } from "@/api/types";
import { timeZone } from "@/lib/format";

import { isZone, readLocal, writeLocal } from "./zones";

/** What a schedule or a webhook is for, as its form holds it. */
export interface TargetForm {
  kind: "team" | "session";
  teamId: string;
  prompt: string;
  model: string;
}

export interface TimingForm {
  kind: Schemas["ScheduleRead"]["kind"];
  cron: string;
  zone: string;
  every: string;
  unit: "60" | "3600" | "86400" | "1";
  /** As `<input type="datetime-local">` writes it, in `zone`: the moment, or the first one. */
  at: string;
}

export type Session = NonNullable<Schemas["ScheduleRead"]["session"]>;

interface Targeted {
  team_id: string | null;
  prompt: string | null;
  session: Session | null;
}

export function newTarget(): TargetForm {
  return { kind: "team", teamId: "", prompt: "", model: "auto" };
}

export function targetOf(thing: Targeted): TargetForm {
  const { session } = thing;
  if (!session) return { kind: "team", teamId: thing.team_id ?? "", prompt: thing.prompt ?? "", model: "auto" };
  return { kind: "session", teamId: "", prompt: textOf(session.prompt), model: textOf(session.model) || "auto" };
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

export function promptOf(thing: Targeted): string {
  return targetOf(thing).prompt;
}

/** The part of a request that says what is asked or started. */
export function targetBody(form: TargetForm) {
  const prompt = form.prompt.trim();
  if (form.kind === "team") return { team_id: form.teamId, prompt };
  return { session: { prompt, model: form.model } as Schemas["SessionCreate"] };
}

/** The same for a change: the team stays, and so does what else was said about the session. */
export function targetChange(form: TargetForm, before: Targeted) {
  const prompt = form.prompt.trim();
  if (!before.session) return prompt === before.prompt ? {} : { prompt };
  const was = targetOf(before);
  if (prompt === was.prompt && form.model === was.model) return {};
  return { session: { ...before.session, prompt, model: form.model } as unknown as Schemas["SessionCreate"] };
}

export function targetFault(form: TargetForm): string | undefined {
  if (form.kind === "team" && !form.teamId) return "Choose a team.";
  return form.prompt.trim() ? undefined : "Write a prompt.";
}

export function newTiming(): TimingForm {
  return { kind: "cron", cron: "0 9 * * 1-5", zone: timeZone, every: "15", unit: "60", at: "" };
}

const UNITS = ["86400", "3600", "60"] as const;

export function timingOf(schedule: Schemas["ScheduleRead"]): TimingForm {
  const zone = isZone(schedule.timezone) ? schedule.timezone : "UTC";
  const seconds = schedule.every_seconds ?? 900;
  const unit = UNITS.find((each) => seconds % Number(each) === 0) ?? "1";
  return {
    kind: schedule.kind,
    cron: schedule.cron ?? "0 9 * * 1-5",
    zone,
    every: String(seconds / Number(unit)),
    unit,
    at: schedule.at ? writeLocal(Date.parse(schedule.at), zone) : "",
  };
}

/** When it fires, for a request; undefined while something is missing. */
export function timingBody(form: TimingForm): Schemas["Timing"] | undefined {
  const instant = readLocal(form.at, form.zone);
  const at = instant === undefined ? undefined : new Date(instant).toISOString();
  if (form.kind === "cron") return form.cron.trim() ? { cron: form.cron.trim(), timezone: form.zone } : undefined;
  if (form.kind === "once") return at ? { at, timezone: form.zone } : undefined;
  const seconds = Math.round(Number(form.every) * Number(form.unit));
  if (!(seconds >= 1)) return undefined;
  return { every_seconds: seconds, timezone: form.zone, ...(at ? { at } : {}) };
}

/** What a change of the timing sends: nothing if the form says what it said before. */
export function timingChange(form: TimingForm, before: TimingForm): Partial<Schemas["Timing"]> {
  const [now, was] = [timingBody(form), timingBody(before)];
  return JSON.stringify(now) === JSON.stringify(was) ? {} : (now ?? {});
}
