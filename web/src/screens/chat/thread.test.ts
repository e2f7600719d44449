import { describe, expect, it } from "vitest";

import { ApiProblem } from "@/api/problem";

import type { ChatPiece } from "./answer";
import { type Change, emptyThread, type Message, reduce, type Send, type Thread } from "./thread";

function message(position: number, more: Partial<Message> = {}): Message {
  return {
    id: `m${position}`, team_id: "t", position, source: "chat", run_id: null, author: "Ada", text: `text ${position}`,
    attachments: [], state: "answered", attempt: 1, answer: `answer ${position}`, error: null, error_code: null, activity: [],
    input_tokens: 1, output_tokens: 1, cost_micros: 0, session_id: null, created_at: "2030-01-01T00:00:00Z",
    started_at: null, finished_at: null, ...more,
  };
}
const running = (position: number) => message(position, { state: "running", answer: null });
const say = (id: string, n: number, text: string, reset = false): ChatPiece => ({ kind: "chunk", messageId: id, n, text, agent: null, reset });
const send = (key: string, text: string): Send => ({ key, text, attachments: [], state: "sending", problem: undefined, messageId: undefined });
const problem = new ApiProblem({ status: 0, code: "unreachable", title: "", detail: "", hint: undefined, requestId: undefined, retryAfter: undefined });

const play = (thread: Thread, ...changes: Change[]) => changes.reduce(reduce, thread);
const opened = (...messages: Message[]): Change => ({ type: "opened", messages, older: false, newer: false });
const positions = (thread: Thread) => thread.messages.map((each) => each.position);

describe("an answer", () => {
  it("is what is stored, once it is there", () => {
    const thread = play(emptyThread("together"), opened(running(1)), { type: "pieces", pieces: [say("m1", 0, "ans", true)] });
    expect(thread.heard.m1!.words[0]!.text).toBe("ans");
    const after = reduce(thread, { type: "stored", message: message(1) });
    expect(after.heard).toEqual({});
    expect(after.messages[0]!.answer).toBe("answer 1");
  });

  it("that is stored is not spoiled by words that come late", () => {
    const thread = play(emptyThread("together"), opened(message(1)), { type: "pieces", pieces: [say("m1", 5, "late")] });
    expect(thread.heard).toEqual({});
  });

  it("that is stored is not taken back by an older look at it", () => {
    const thread = play(emptyThread("together"), opened(message(1)), { type: "stored", message: running(1) });
    expect(thread.messages[0]!.state).toBe("answered");
    expect(play(thread, opened(running(1))).messages[0]!.state).toBe("answered");
  });

  it("is heard before its message is known", () => {
    const thread = play(emptyThread("together"), opened(), { type: "pieces", pieces: [say("m1", 0, "a", true)] }, { type: "stored", message: running(1) });
    expect(thread.heard.m1!.words[0]!.text).toBe("a");
  });

  it("that was stopped keeps the words that were heard, and takes no more", () => {
    const stopped = message(1, { state: "cancelled", answer: null });
    const thread = play(emptyThread("together"), opened(running(1)), { type: "pieces", pieces: [say("m1", 0, "half", true)] }, { type: "stored", message: stopped });
    const after = play(thread, { type: "pieces", pieces: [say("m1", 1, " late")] });
    expect(after.heard.m1!.words[0]!.text).toBe("half");
  });

  it("is unsure while the line is lost", () => {
    const thread = play(emptyThread("together"), opened(running(1)), { type: "pieces", pieces: [say("m1", 0, "a", true)] }, { type: "away" });
    expect(thread.heard.m1!.unsure).toBe(true);
    expect(play(thread, { type: "pieces", pieces: [say("m1", 1, "b")] }).heard.m1).toMatchObject({ unsure: false, missing: "nothing" });
  });
});

describe("a message that is sent", () => {
  it("is replaced by the stored one", () => {
    const thread = play(emptyThread("together"), opened(), { type: "send", send: send("k", "Hello") });
    expect(thread.sends).toHaveLength(1);
    const after = reduce(thread, { type: "sent", key: "k", message: running(1) });
    expect(after.sends).toEqual([]);
    expect(positions(after)).toEqual([1]);
  });

  it("is shown once when its event comes before the answer", () => {
    const stored = { ...running(1), text: "Hello" };
    const thread = play(
      emptyThread("together"), opened(), { type: "send", send: send("k", "Hello") },
      { type: "queued", messageId: "m1", text: "Hello" }, { type: "stored", message: stored },
    );
    expect(thread.sends).toEqual([]);
    expect(positions(play(thread, { type: "sent", key: "k", message: stored }))).toEqual([1]);
  });

  it("whose answer was lost is found by its event", () => {
    const thread = play(
      emptyThread("together"), opened(), { type: "send", send: send("k", "Hello") }, { type: "unsent", key: "k", problem },
      { type: "queued", messageId: "m1", text: "Hello" }, { type: "stored", message: running(1) },
    );
    expect(thread.sends).toEqual([]);
  });

  it("is not taken for another one with the same words", () => {
    const thread = play(
      emptyThread("together"), opened(), { type: "send", send: send("a", "Go on") }, { type: "send", send: send("b", "Go on") },
      { type: "queued", messageId: "m1", text: "Go on" }, { type: "stored", message: running(1) },
    );
    expect(thread.sends.map((each) => each.key)).toEqual(["b"]);
  });

  it("is not taken for a shorter one, and a long one is known by its beginning", () => {
    const queued = (text: string): Change => ({ type: "queued", messageId: "m1", text });
    const thread = play(emptyThread("together"), opened(), { type: "send", send: send("k", "Go on") });
    expect(play(thread, queued("Go")).sends[0]!.messageId).toBeUndefined();
    const long = play(emptyThread("together"), opened(), { type: "send", send: send("k", "a".repeat(5_000)) });
    expect(play(long, queued("a".repeat(4_000))).sends[0]!.messageId).toBe("m1");
  });

  it("stays when it failed, and can be sent again or dropped", () => {
    const failed = play(emptyThread("together"), opened(), { type: "send", send: send("k", "Hello") }, { type: "unsent", key: "k", problem });
    expect(failed.sends[0]).toMatchObject({ state: "failed", problem });
    expect(play(failed, { type: "send", send: send("k", "Hello") }).sends).toEqual([send("k", "Hello")]);
    expect(play(failed, { type: "dropped", key: "k" }).sends).toEqual([]);
  });
});

describe("history", () => {
  it("grows to both sides", () => {
    const thread = play(
      emptyThread("together"), { type: "opened", messages: [message(5), message(6)], older: true, newer: true },
      { type: "older", messages: [message(3), message(4)], more: true }, { type: "newer", messages: [message(7)], more: false },
    );
    expect(positions(thread)).toEqual([3, 4, 5, 6, 7]);
    expect(thread).toMatchObject({ older: true, newer: false });
  });

  it("takes new messages only where it reaches the end", () => {
    const part = play(emptyThread("together"), { type: "opened", messages: [message(5)], older: true, newer: true });
    expect(positions(play(part, { type: "stored", message: running(9) }))).toEqual([5]);
    expect(positions(play(part, { type: "newer", messages: [message(6)], more: false }, { type: "stored", message: running(7) }))).toEqual([5, 6, 7]);
  });

  it("does not take messages from before its beginning", () => {
    const thread = play(emptyThread("together"), { type: "opened", messages: [message(5)], older: true, newer: false });
    expect(positions(play(thread, { type: "stored", message: message(2) }))).toEqual([5]);
  });

  it("joins the newest page after a sleep, or begins with it when too much was missed", () => {
    const thread = play(emptyThread("together"), opened(message(1), running(2)));
    const joined = play(thread, { type: "newest", messages: [message(2), message(3)], older: true });
    expect(positions(joined)).toEqual([1, 2, 3]);
    expect(joined).toMatchObject({ older: false });
    const anew = play(thread, { type: "newest", messages: [message(8), message(9)], older: true });
    expect(positions(anew)).toEqual([8, 9]);
    expect(anew).toMatchObject({ older: true });
  });
});
