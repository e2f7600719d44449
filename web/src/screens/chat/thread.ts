import type { ApiProblem } from "@/api/problem";
import type { Schemas } from "@/api/types";

import { type ChatPiece, type Counting, hear, type Heard, NOTHING } from "./answer";

export type Message = Schemas["MessageRead"];

/** A message on its way to the server, which has not said yet that it has it. */
export interface Send {
  /** Its Idempotency-Key: however often it is sent, it is one message. */
  key: string;
  text: string;
  attachments: Schemas["Attachment"][];
  state: "sending" | "failed";
  problem: ApiProblem | undefined;
  /** What became of it, when an event tells so before the answer does. */
  messageId: string | undefined;
}

/** The conversation with a team, as far as it is known here. */
export interface Thread {
  counting: Counting;
  loaded: boolean;
  /** By position, without gaps. */
  messages: Message[];
  /** There are messages before the first one, and after the last one. */
  older: boolean;
  newer: boolean;
  /** What is heard of messages whose answers are not stored. */
  heard: Record<string, Heard>;
  sends: Send[];
}

export type Change =
  | { type: "opened"; messages: Message[]; older: boolean; newer: boolean }
  | { type: "older" | "newer"; messages: Message[]; more: boolean }
  | { type: "newest"; messages: Message[]; older: boolean }
  | { type: "stored"; message: Message }
  | { type: "queued"; messageId: string; text: string }
  | { type: "pieces"; pieces: ChatPiece[] }
  | { type: "away" }
  | { type: "send"; send: Send }
  | { type: "sent"; key: string; message: Message }
  | { type: "unsent"; key: string; problem: ApiProblem }
  | { type: "dropped"; key: string };

/** An event holds so much of a text, and leaves out the rest. */
const SHOWN = 4_000;

export function emptyThread(counting: Counting, sends: Send[] = []): Thread {
  return { counting, loaded: false, messages: [], older: false, newer: false, heard: {}, sends };
}

export function isOpen(message: Message): boolean {
  return message.state === "queued" || message.state === "running";
}

/** The thread after something was learned. Everything may come late, twice or not at all. */
export function reduce(thread: Thread, change: Change): Thread {
  switch (change.type) {
    case "opened":
      return settled({ ...thread, loaded: true, messages: merged([], change.messages, thread.messages), older: change.older, newer: change.newer });
    case "older":
      return settled({ ...thread, messages: merged(thread.messages, change.messages), older: change.more });
    case "newer":
      return settled({ ...thread, messages: merged(thread.messages, change.messages), newer: change.more });
    case "newest":
      return settled(withNewest(thread, change.messages, change.older));
    case "stored":
      return settled(belongs(thread, change.message) ? { ...thread, messages: merged(thread.messages, [change.message]) } : thread);
    case "queued":
      return linked(thread, change.messageId, change.text);
    case "pieces":
      return withPieces(thread, change.pieces);
    case "away":
      return { ...thread, heard: Object.fromEntries(Object.entries(thread.heard).map(([id, heard]) => [id, { ...heard, unsure: true }])) };
    case "send":
      return { ...thread, sends: [...thread.sends.filter((each) => each.key !== change.send.key), change.send] };
    case "sent": {
      const sends = thread.sends.filter((each) => each.key !== change.key);
      return reduce({ ...thread, sends }, { type: "stored", message: change.message });
    }
    case "unsent":
      return {
        ...thread,
        sends: thread.sends.map((each) => (each.key === change.key ? { ...each, state: "failed", problem: change.problem } : each)),
      };
    case "dropped":
      return { ...thread, sends: thread.sends.filter((each) => each.key !== change.key) };
  }
}

/** What is stored now, in order. A message that has ended stays so: an older answer came late. */
function merged(known: Message[], ...more: Message[][]): Message[] {
  const byId = new Map(known.map((message) => [message.id, message]));
  const [told, kept] = [more[0] ?? [], more[1] ?? []];
  const before = new Map([...kept, ...known].map((message) => [message.id, message]));
  for (const message of told) {
    const old = before.get(message.id);
    byId.set(message.id, old && !isOpen(old) && isOpen(message) ? old : message);
  }
  return [...byId.values()].sort((a, b) => a.position - b.position);
}

/** The newest page, after the line was lost. What lies between it and what is shown is fetched
 * anew by scrolling up, so that there never is a gap. */
function withNewest(thread: Thread, messages: Message[], older: boolean): Thread {
  if (thread.newer) return thread;
  const last = thread.messages.at(-1);
  const first = messages.at(0);
  const joins = last === undefined || first === undefined || first.position <= last.position + 1;
  if (joins) {
    return { ...thread, loaded: true, messages: merged(thread.messages, messages), older: last === undefined ? older : thread.older };
  }
  return { ...thread, loaded: true, messages: merged([], messages, thread.messages), older };
}

/** Whether a message lies in the part of the conversation that is shown. */
function belongs(thread: Thread, message: Message): boolean {
  const first = thread.messages.at(0);
  const last = thread.messages.at(-1);
  if (first === undefined || last === undefined) return !thread.newer;
  return message.position >= first.position && (message.position <= last.position || !thread.newer);
}

/** Without what is void: words that are stored now, sends that have arrived. Of an answer that was
 * stopped nothing is stored: what was heard of it stays. */
function settled(thread: Thread): Thread {
  const ended = new Set(thread.messages.filter((message) => message.state === "answered" || message.answer !== null).map((message) => message.id));
  const there = new Set(thread.messages.map((message) => message.id));
  const heard = Object.keys(thread.heard).some((id) => ended.has(id))
    ? Object.fromEntries(Object.entries(thread.heard).filter(([id]) => !ended.has(id)))
    : thread.heard;
  const sends = thread.sends.some((send) => send.messageId && there.has(send.messageId))
    ? thread.sends.filter((send) => !(send.messageId && there.has(send.messageId)))
    : thread.sends;
  return { ...thread, heard, sends };
}

/** The event that a message is queued may come before the answer to its sending, or instead. */
function linked(thread: Thread, messageId: string, text: string): Thread {
  if (thread.messages.some((message) => message.id === messageId)) return thread;
  const same = (send: Send) => (text.length < SHOWN ? send.text === text : send.text.startsWith(text));
  const at = thread.sends.findIndex((send) => send.messageId === undefined && same(send));
  if (at === -1) return thread;
  return { ...thread, sends: thread.sends.with(at, { ...thread.sends[at]!, messageId }) };
}

function withPieces(thread: Thread, pieces: ChatPiece[]): Thread {
  const ended = new Set(thread.messages.filter((message) => !isOpen(message)).map((message) => message.id));
  const heard = { ...thread.heard };
  for (const piece of pieces) {
    if (!ended.has(piece.messageId)) heard[piece.messageId] = hear(heard[piece.messageId] ?? NOTHING, piece, thread.counting);
  }
  return { ...thread, heard };
}
