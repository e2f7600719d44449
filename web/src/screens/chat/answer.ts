/** What is heard of an answer while it is written, put together from pieces that may be missing. */

export interface Deed {
  id: string;
  tool: string;
  summary: string;
  state: "running" | "done" | "failed" | "denied";
  /** The worker who does it; null: the leader. */
  agent: string | null;
}

export interface Words {
  agent: string | null;
  text: string;
}

export interface Chunk {
  kind: "chunk";
  messageId: string;
  n: number;
  text: string;
  agent: string | null;
  /** What this message said before is void. */
  reset: boolean;
}

export interface Activity {
  kind: "activity";
  messageId: string;
  n: number;
  deed: Deed;
}

export type ChatPiece = Chunk | Activity;

/** Native teams count words and deeds together, from 0; agent CLIs each by themselves, from 1. */
export type Counting = "together" | "apart";
const FIRST: Record<Counting, number> = { together: 0, apart: 1 };

export interface Heard {
  words: Words[];
  deeds: Deed[];
  /** The number of the last piece; null before the first one. */
  last: number | null;
  /** Which words were said and not heard: the stored answer will have them. */
  missing: "nothing" | "beginning" | "middle";
  /** The line was lost: the next piece shows whether something was missed. */
  unsure: boolean;
}

export const NOTHING: Heard = { words: [], deeds: [], last: null, missing: "nothing", unsure: false };
const LEFT_OUT = "… ";

/** What is known after one more piece; the same object if it says nothing new. */
export function hear(heard: Heard, piece: ChatPiece, counting: Counting): Heard {
  return piece.kind === "chunk" ? hearWords(heard, piece, counting) : hearDeed(heard, piece, counting);
}

function hearWords(heard: Heard, piece: Chunk, counting: Counting): Heard {
  if (piece.reset) {
    const words = piece.text === "" ? [] : [{ agent: piece.agent, text: piece.text }];
    return { ...heard, words, last: piece.n, missing: "nothing", unsure: false };
  }
  if (counting === "together" && piece.agent !== null) {
    return { ...passed(heard, piece.n), words: joined(heard.words, piece.agent, piece.text) };
  }
  if (heard.last !== null && piece.n <= heard.last) return heard;
  const after = counted(heard, piece.n, counting);
  const follows = after.missing === heard.missing && (heard.last !== null ? piece.n === heard.last + 1 : true);
  return { ...after, words: joined(heard.words, piece.agent, follows ? piece.text : LEFT_OUT + piece.text) };
}

function hearDeed(heard: Heard, piece: Activity, counting: Counting): Heard {
  const deeds = done(heard.deeds, piece.deed);
  // Counted by themselves, deeds say nothing about words.
  const counts = counting === "together" && (heard.last === null || piece.n > heard.last);
  const count = piece.deed.agent === null ? counted : passed;
  const after = counts ? count(heard, piece.n, counting) : heard;
  return deeds === heard.deeds && after === heard ? heard : { ...after, deeds };
}

/** Workers of a native team may be in several processes, each of which counts by itself: their numbers
 * do not tell whether something is missing. */
function passed(heard: Heard, n: number): Heard {
  return { ...heard, last: Math.max(heard.last ?? n, n) };
}

/** The count moved on to `n`: whether something was left out on the way. */
function counted(heard: Heard, n: number, counting: Counting): Heard {
  if (heard.last === null) {
    return { ...heard, last: n, missing: n === FIRST[counting] ? heard.missing : "beginning", unsure: false };
  }
  return { ...heard, last: n, missing: n === heard.last + 1 ? heard.missing : "middle", unsure: false };
}

function joined(words: Words[], agent: string | null, text: string): Words[] {
  const last = words.at(-1);
  if (last === undefined || last.agent !== agent) return [...words, { agent, text }];
  return [...words.slice(0, -1), { agent, text: last.text + text }];
}

/** A deed begins and then ends; news of its beginning that comes late is old. */
function done(deeds: Deed[], deed: Deed): Deed[] {
  const at = deeds.findIndex((each) => each.id === deed.id);
  if (at === -1) return [...deeds, deed];
  if (deed.state === "running" && deeds[at]!.state !== "running") return deeds;
  return deeds.with(at, deed);
}

const STATES = ["running", "done", "failed", "denied"] as const;
const textOf = (value: unknown): string => (typeof value === "string" ? value : "");
const nameOf = (value: unknown): string | null => (typeof value === "string" && value !== "" ? value : null);

/** A deed as the API or the socket tells it: defaults are left out there. */
export function readDeed(value: Record<string, unknown>): Deed {
  return {
    id: textOf(value.id),
    tool: textOf(value.tool),
    summary: textOf(value.summary),
    state: STATES.find((state) => state === value.state) ?? "done",
    agent: nameOf(value.agent),
  };
}

/** What the socket brought, if it is a piece of a chat. */
export function readPiece(piece: Record<string, unknown>): ChatPiece | undefined {
  const messageId = nameOf(piece.message_id);
  const n = piece.n;
  if (messageId === null || typeof n !== "number") return undefined;
  if (piece.type === "message.chunk") {
    return { kind: "chunk", messageId, n, text: textOf(piece.text), agent: nameOf(piece.agent), reset: piece.reset === true };
  }
  if (piece.type === "message.activity" && typeof piece.deed === "object" && piece.deed !== null) {
    return { kind: "activity", messageId, n, deed: readDeed(piece.deed as Record<string, unknown>) };
  }
  return undefined;
}
