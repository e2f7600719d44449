import { startTransition, useCallback, useEffect, useMemo, useReducer, useRef, useState } from "react";

import { ApiProblem, problemOf } from "@/api/problem";
import { useMe } from "@/api/session";
import type { Schemas } from "@/api/types";
import { readStored, writeStored } from "@/lib/stored";
import { useEvents, useLiveState, useTeamChat } from "@/live/LiveProvider";
import { tellProblem } from "@/ui/toasts";

import { type ChatPiece, readPiece } from "./answer";
import { cancelMessage, fetchMessage, fetchPage, PAGE, postMessage, uniqueName } from "./requests";
import { type Change, emptyThread, type Message, reduce, type Send, type Thread } from "./thread";

/** How many messages are shown after the one that a link leads to. */
const AFTER_TARGET = 10;
const TRIES = 4;
/** Much may have to be drawn after these: it is done in slices, between which keys are heard. */
const LARGE = new Set<Change["type"]>(["opened", "older", "newer", "newest", "stored"]);

export interface Conversation {
  thread: Thread;
  problem: ApiProblem | undefined;
  /** What screen readers are told: the last answer that was finished. */
  announcement: string;
  open: (target?: string) => Promise<void>;
  loadOlder: () => Promise<void>;
  loadNewer: () => Promise<void>;
  send: (text: string, attachments: Schemas["Attachment"][]) => void;
  resend: (send: Send) => void;
  drop: (key: string) => void;
  cancel: (messageId: string) => Promise<void>;
}

/** The conversation with one team, kept up to date for as long as the component is there. */
export function useThread(team: Schemas["TeamDetails"]): Conversation {
  const teamId = team.id;
  const counting = team.provider === "native" ? "together" : "apart";
  const [thread, change] = useReducer(reduce, undefined, () => emptyThread(counting, readUnsent(teamId)));
  const dispatch = useCallback((next: Change) => (LARGE.has(next.type) ? startTransition(() => change(next)) : change(next)), []);
  const latest = useRef(thread);
  latest.current = thread;
  const [problem, setProblem] = useState<ApiProblem>();
  const announcement = useHearing(team, latest, dispatch);
  useUnsent(teamId, thread.sends);

  const guarded = useCallback(async (work: () => Promise<void>) => {
    try {
      await work();
      setProblem(undefined);
    } catch (error) {
      setProblem(problemOf(error));
    }
  }, []);
  const { send, resend } = useSending(teamId, dispatch);
  const loads = useMemo(() => loadsOf(teamId, latest, dispatch, guarded), [teamId, dispatch, guarded]);
  const cancel = useCallback(
    async (messageId: string) => {
      try {
        dispatch({ type: "stored", message: await cancelMessage(teamId, messageId) });
      } catch (error) {
        // It ended in the meantime: what was wanted is the case.
        if (problemOf(error).code !== "message_ended") tellProblem(error);
        dispatch({ type: "stored", message: await fetchMessage(teamId, messageId) });
      }
    },
    [teamId, dispatch],
  );
  const drop = useCallback((key: string) => dispatch({ type: "dropped", key }), [dispatch]);
  return { thread, problem, announcement, ...loads, send, resend, drop, cancel };
}

type Guarded = (work: () => Promise<void>) => Promise<void>;

function loadsOf(teamId: string, latest: { current: Thread }, dispatch: (change: Change) => void, guarded: Guarded) {
  let busy = false;
  const alone: Guarded = async (work) => {
    if (busy) return;
    busy = true;
    await guarded(work);
    busy = false;
  };
  return {
    open: (target?: string) =>
      guarded(async () => {
        const newest = await fetchPage(teamId);
        if (target === undefined || newest.messages.some((message) => message.id === target)) {
          return dispatch({ type: "opened", messages: newest.messages, older: newest.more, newer: false });
        }
        // A link may be older than the message it leads to: then there is the conversation.
        const aim = await fetchMessage(teamId, target).catch(() => undefined);
        const end = aim === undefined ? undefined : aim.position + AFTER_TARGET;
        const around = end === undefined ? newest : await fetchPage(teamId, end + 1);
        const newer = end !== undefined && around.messages.at(-1)?.position === end;
        dispatch({ type: "opened", messages: around.messages, older: around.more, newer });
      }),
    loadOlder: () =>
      alone(async () => {
        const first = latest.current.messages.at(0);
        if (first === undefined || !latest.current.older) return;
        const { messages, more } = await fetchPage(teamId, first.position);
        dispatch({ type: "older", messages, more });
      }),
    loadNewer: () =>
      alone(async () => {
        const last = latest.current.messages.at(-1);
        if (last === undefined || !latest.current.newer) return;
        const { messages } = await fetchPage(teamId, last.position + PAGE + 1);
        dispatch({ type: "newer", messages, more: messages.at(-1)?.position === last.position + PAGE });
      }),
  };
}

/** Listens to the socket: words as they come, once per frame, and what becomes of messages. */
function useHearing(team: Schemas["TeamDetails"], latest: { current: Thread }, dispatch: (change: Change) => void): string {
  const me = useMe();
  const [announcement, announce] = useState("");
  const waiting = useRef<ChatPiece[]>([]);
  const frame = useRef(0);
  useTeamChat(team.id, (heard) => {
    const piece = readPiece(heard);
    if (piece === undefined) return;
    waiting.current.push(piece);
    frame.current ||= requestAnimationFrame(() => {
      frame.current = 0;
      dispatch({ type: "pieces", pieces: waiting.current.splice(0) });
    });
  });
  useEffect(() => () => cancelAnimationFrame(frame.current), []);

  useEvents(["message."], ({ type, data }) => {
    if (data.team_id !== team.id || typeof data.message_id !== "string") return;
    const messageId = data.message_id;
    if (type === "message.queued" && data.author === me.name && typeof data.text === "string") {
      dispatch({ type: "queued", messageId, text: data.text });
    }
    void stored(team.id, messageId).then((message) => {
      if (message === undefined) return;
      dispatch({ type: "stored", message });
      if (type === "message.finished") announce(spoken(team, message));
    });
  });

  const state = useLiveState();
  const before = useRef(state);
  useEffect(() => {
    const was = before.current;
    before.current = state;
    if (state === "away") dispatch({ type: "away" });
    // Pages and events overlap: what happened while nobody listened is in the newest page.
    if (state === "live" && was !== "live" && latest.current.loaded) void catchUp(team.id, latest, dispatch);
  }, [state, team.id, latest, dispatch]);
  return announcement;
}

async function catchUp(teamId: string, latest: { current: Thread }, dispatch: (change: Change) => void): Promise<void> {
  const open = latest.current.messages.filter((message) => message.finished_at === null);
  const newest = await fetchPage(teamId).catch(() => undefined);
  if (newest === undefined) return;
  dispatch({ type: "newest", messages: newest.messages, older: newest.more });
  const seen = new Set(newest.messages.map((message) => message.id));
  for (const { id } of open) {
    const message = seen.has(id) ? undefined : await stored(teamId, id);
    if (message !== undefined) dispatch({ type: "stored", message });
  }
}

/** What is stored of a message now; asked for again a few times, as no other event may follow. */
async function stored(teamId: string, messageId: string): Promise<Message | undefined> {
  for (let count = 1; count <= TRIES; count += 1) {
    try {
      return await fetchMessage(teamId, messageId);
    } catch (error) {
      if (problemOf(error).status === 404) return undefined;
      await new Promise((resolve) => setTimeout(resolve, 1000 * count));
    }
  }
  return undefined;
}

function spoken(team: Schemas["TeamDetails"], message: Message): string {
  if (message.state === "answered") return `${team.name} answered: ${(message.answer ?? "").slice(0, 400)}`;
  return `The message to ${team.name} has ended: it is ${message.state}. ${message.error ?? ""}`;
}

/** Sends one message after the other, so that they arrive in the order in which they were written. */
function useSending(teamId: string, dispatch: (change: Change) => void) {
  const line = useRef<Promise<void>>(Promise.resolve());
  const post = useCallback(
    (send: Send) => {
      dispatch({ type: "send", send });
      line.current = line.current.then(async () => {
        try {
          dispatch({ type: "sent", key: send.key, message: await postMessage(teamId, send) });
        } catch (error) {
          dispatch({ type: "unsent", key: send.key, problem: problemOf(error) });
        }
      });
    },
    [teamId, dispatch],
  );
  const send = useCallback(
    (text: string, attachments: Schemas["Attachment"][]) =>
      post({ key: uniqueName(), text, attachments, state: "sending", problem: undefined, messageId: undefined }),
    [post],
  );
  const resend = useCallback((failed: Send) => post({ ...failed, state: "sending", problem: undefined }), [post]);
  return { send, resend };
}

const LOST = new ApiProblem({
  status: 0,
  code: "left",
  title: "",
  detail: "The page was left before the server said that it has this message.",
  hint: undefined,
  requestId: undefined,
  retryAfter: undefined,
});

type Kept = Pick<Send, "key" | "text" | "attachments">;

function readUnsent(teamId: string): Send[] {
  const kept = JSON.parse(readStored(`unsent.${teamId}`) ?? "[]") as Kept[];
  return kept.map(({ key, text, attachments }) => ({ key, text, attachments, state: "failed", problem: LOST, messageId: undefined }));
}

function useUnsent(teamId: string, sends: Send[]): void {
  useEffect(() => {
    const kept: Kept[] = sends.map(({ key, text, attachments }) => ({ key, text, attachments }));
    writeStored(`unsent.${teamId}`, kept.length === 0 ? null : JSON.stringify(kept));
  }, [teamId, sends]);
}
