import { pathTo, type Step } from "./journal";

/** Where the bar of a step lies, as shares of all the time in which something was done. */
export interface Bar {
  from: number;
  width: number;
}

/** Places each step on an axis of time from which waiting is left out; steps may overlap. */
export function waterfall(steps: Step[]): Map<number, Bar> {
  // A step is written when it has ended.
  const spans = steps.map((step) => {
    const end = Date.parse(step.at);
    return { seq: step.seq, start: end - step.duration_ms, end };
  });
  const busy = merge(spans);
  const total = busy.reduce((sum, span) => sum + span.end - span.start, 0);
  const share = (ms: number) => (total > 0 ? ms / total : 0);
  return new Map(
    spans.map(({ seq, start, end }) => [seq, { from: share(worked(busy, start)), width: share(end - start) }]),
  );
}

interface Busy {
  start: number;
  end: number;
  /** Time at work before it. */
  before: number;
}

function merge(spans: { start: number; end: number }[]): Busy[] {
  const merged: Busy[] = [];
  for (const { start, end } of [...spans].sort((one, other) => one.start - other.start)) {
    const last = merged.at(-1);
    if (last && start <= last.end) last.end = Math.max(last.end, end);
    else merged.push({ start, end, before: last ? last.before + last.end - last.start : 0 });
  }
  return merged;
}

/** How much time something was done until a moment. */
function worked(busy: Busy[], moment: number): number {
  let low = 0;
  let high = busy.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (busy[middle]!.start <= moment) low = middle;
    else high = middle - 1;
  }
  const span = busy[low];
  return span ? span.before + Math.max(0, Math.min(moment, span.end) - span.start) : 0;
}

/** Money spent by all steps up to one, undone ones included: what is spent stays spent. */
export function costUntil(steps: Step[], seq: number): number {
  return steps.reduce((sum, step) => sum + (step.seq <= seq ? (step.cost_micros ?? 0) : 0), 0);
}

/** The number of the answer that asked for a tool call; 0 for other steps. */
export function answerOf(step: Step): number {
  if (step.kind !== "tool" || step.key === null) return 0;
  return Number.parseInt(step.key, 10) || 0;
}

/** The last step up to `seq` at which no tool call waits for its result: there the session can be cut. */
export function boundaryBefore(steps: Step[], seq: number): number {
  const path = pathTo(steps, seq);
  const on = [...path].sort((one, other) => one - other);
  const open = new Set<string>();
  let found = on[0] ?? 1;
  for (const at of on) {
    const step = steps[at - 1]!;
    if (step.kind === "model") {
      open.clear();
      callsAfter(steps, step).forEach((key) => open.add(key));
    } else if (step.kind === "tool") open.delete(step.key ?? "");
    else if (step.kind === "message" || step.kind === "compaction") open.clear();
    if (open.size === 0) found = at;
  }
  return found;
}

/** The keys of an answer's tool calls: those it names, or, of an answer too large for a list, those made. */
function callsAfter(steps: Step[], answer: Step): string[] {
  const named = partsOf(answer).filter((part) => part.part_kind === "tool-call");
  if (named.length > 0) return named.map((_, index) => `${answer.seq}.${index}`);
  return steps.filter((step) => answerOf(step) === answer.seq).map((step) => step.key ?? "");
}

export interface Part {
  part_kind: string;
  content?: string;
  tool_name?: string;
  args?: unknown;
  tool_call_id?: string;
}

/** What an answer of the model is made of; nothing if it is too large for a list. */
export function partsOf(step: Step): Part[] {
  const parts = field(step.output, "parts");
  return Array.isArray(parts) ? (parts as Part[]) : [];
}

/** A field of foreign JSON, if it has it. */
export function field(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>)[name] : undefined;
}

/** A text in a field of foreign JSON; empty if there is none. */
export function textIn(value: unknown, name: string): string {
  const found = field(value, name);
  return typeof found === "string" ? found : "";
}

/** The beginning of JSON that is too large for a list; empty if all of it is there. */
export function excerptOf(value: unknown): string {
  return typeof field(value, "bytes") === "number" ? textIn(value, "excerpt") : "";
}

/** The first text under a name in JSON that is cut off, also in JSON within its strings. */
export function textInExcerpt(excerpt: string, name: string): string {
  const pattern = new RegExp(`"${name}": ?"((?:[^"\\\\]|\\\\.)*)`);
  const found = pattern.exec(excerpt) ?? pattern.exec(excerpt.replaceAll('\\"', '"'));
  return (found?.[1] ?? "").replaceAll(/\\+n/g, " ").replaceAll(/\\(.)/g, "$1");
}

/** The arguments of a tool call, which models write as JSON in a string. */
export function argumentsOf(step: Step): unknown {
  return decoded(field(step.input, "arguments"));
}

/** What a string of JSON says; anything else as it is. */
export function decoded(value: unknown): unknown {
  if (typeof value !== "string") return value;
  try {
    return JSON.parse(value) as unknown;
  } catch {
    return value;
  }
}

const WORDS: Record<string, string> = {
  CREATED: "Created",
  QUEUED: "Queued",
  RUNNING: "Running",
  CHECKPOINT: "Checkpoint",
  GATE_CHECK: "Gate check",
  COMPLETE: "Complete",
  PAUSED: "Paused",
  FAILED: "Failed",
  ROLLBACK: "Rolling back",
  ROLLED_BACK: "Rolled back",
};
const SPEAKERS: Record<string, string> = { user: "Prompt", output: "Told to give its result", gate: "Told by a gate" };

/** What a step is called in the timeline. */
export function nameOf(step: Step): string {
  switch (step.kind) {
    case "state":
      return WORDS[step.name] ?? step.name;
    case "message":
      return SPEAKERS[step.name] ?? `Message: ${step.name}`;
    case "checkpoint":
      return step.name === "start" || step.name === "end" ? `Checkpoint at the ${step.name}` : `Checkpoint “${step.name}”`;
    case "gate":
      return `Gate “${step.name}”`;
    case "rollback":
      return `Rolled back to step ${step.parent}`;
    case "compaction":
      return "Conversation summed up";
    case "approval":
      return `${step.name}: ${textIn(step.output, "state") || "decided"}`;
    default:
      return step.name;
  }
}

/** What a step was about, on one line. */
export function summaryOf(step: Step): string {
  switch (step.kind) {
    case "message":
      return line(textIn(step.output, "text") || textInExcerpt(excerptOf(step.output), "text"));
    case "model":
      return answerLine(step);
    case "tool":
      return toolLine(step);
    case "gate":
      return line(textIn(step.output, "reason"));
    case "state":
    case "approval":
      return line(textIn(step.output, "reason") || textIn(step.output, "answer"));
    default:
      return "";
  }
}

function answerLine(step: Step): string {
  const parts = partsOf(step);
  const said = parts.find((part) => part.part_kind === "text")?.content;
  const calls = parts.filter((part) => part.part_kind === "tool-call").map((part) => part.tool_name);
  if (said) return line(said);
  if (calls.length > 0) return `→ ${[...new Set(calls)].join(", ")}`;
  const excerpt = excerptOf(step.output);
  const began = textInExcerpt(excerpt, "content") || textInExcerpt(excerpt, "tool_name");
  return line(textIn(step.output, "error") || textIn(step.output, "text") || began);
}

// What says best what a tool call is about, if it has it.
const ABOUT = ["path", "command", "url", "question", "pattern"];

function toolLine(step: Step): string {
  const given = argumentsOf(step);
  const excerpt = excerptOf(step.input);
  const about = ABOUT.map((name) => textIn(given, name) || textInExcerpt(excerpt, name)).find(Boolean);
  const came = textIn(step.output, "text") || textInExcerpt(excerptOf(step.output), "text");
  return line([about, came].filter(Boolean).join(" · "));
}

function line(text: string): string {
  return text.slice(0, 400).replace(/\s+/g, " ").trim();
}

export interface PlanItem {
  step: string;
  status: string;
}

/** The plan that the agent has noted last, up to a step. */
export function planAt(steps: Step[], seq: number): PlanItem[] {
  const path = pathTo(steps, seq);
  for (let at = seq; at > 0; at -= 1) {
    const step = steps[at - 1];
    const plan = step && path.has(at) && step.kind === "tool" ? field(step.output, "plan") : undefined;
    if (Array.isArray(plan)) return plan as PlanItem[];
  }
  return [];
}

/** The states that a session has been in, each once, with how often. */
export function visited(steps: Step[]): Map<string, number> {
  const found = new Map<string, number>([["CREATED", 1]]);
  for (const step of steps) if (step.kind === "state") found.set(step.name, (found.get(step.name) ?? 0) + 1);
  return found;
}
