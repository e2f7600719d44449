// @vitest-environment jsdom
import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { EventSocket, type LiveState, type Piece, type TenantEvent } from "./socket";

class FakeSocket {
  static OPEN = 1;
  static made: FakeSocket[] = [];
  readyState = 0;
  sent: string[] = [];
  onopen: () => void = () => undefined;
  onmessage: (message: { data: string }) => void = () => undefined;
  onclose: (closed: { code: number }) => void = () => undefined;

  constructor(readonly url: string) {
    FakeSocket.made.push(this);
  }

  send(text: string): void {
    this.sent.push(text);
  }

  close(): void {
    this.readyState = 3;
  }

  accept(): void {
    this.readyState = 1;
    this.onopen();
  }

  say(...documents: unknown[]): void {
    this.onmessage({ data: documents.map((each) => JSON.stringify(each)).join("\n") });
  }

  break(code = 1006): void {
    this.readyState = 3;
    this.onclose({ code });
  }
}

const event = (seq: number) => ({ seq, id: `e${seq}`, type: "team.updated", at: "", data: {} });

let heard: { events: number[]; pieces: Piece[]; states: LiveState[]; gaps: number };
let renewals: (() => Promise<boolean>)[];
let socket: EventSocket;

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("WebSocket", FakeSocket);
  FakeSocket.made = [];
  heard = { events: [], pieces: [], states: [], gaps: 0 };
  renewals = [];
  socket = new EventSocket({
    event: (each: TenantEvent) => heard.events.push(each.seq),
    piece: (piece) => heard.pieces.push(piece),
    state: (state) => heard.states.push(state),
    gap: () => (heard.gaps += 1),
    renew: () => renewals.shift()?.() ?? Promise.resolve(true),
  });
  socket.open();
});

afterEach(() => {
  socket.close();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const newest = () => FakeSocket.made.at(-1)!;

test("several events come in one message, each is told once", () => {
  newest().accept();
  newest().say({ type: "stream.live", after: 3 }, event(4), event(5));
  newest().say(event(5), event(6));
  expect(heard.events).toEqual([4, 5, 6]);
  expect(heard.states.at(-1)).toBe("live");
});

test("a lost connection goes on after the last event", async () => {
  newest().accept();
  newest().say({ type: "stream.live", after: 41 }, event(42));
  newest().break();
  await vi.advanceTimersByTimeAsync(1000);
  expect(FakeSocket.made).toHaveLength(2);
  expect(newest().url).toContain("after=42");
});

test("what is watched is asked for again on every connection, until it is let go", async () => {
  const unwatch = socket.watch("team", "t1");
  socket.watch("session", "s1");
  newest().accept();
  expect(newest().sent).toEqual(['{"watch":"t1"}', '{"watch_session":"s1"}']);
  newest().break();
  await vi.advanceTimersByTimeAsync(1000);
  newest().accept();
  expect(newest().sent).toHaveLength(2);
  unwatch();
  expect(newest().sent.at(-1)).toBe('{"unwatch":"t1"}');
});

test("a piece without a place in the stream does not move the position", async () => {
  newest().accept();
  newest().say({ type: "stream.live", after: 7 }, { type: "session.words", session_id: "s", step: 900, text: "a", done: false });
  newest().break();
  await vi.advanceTimersByTimeAsync(1000);
  expect(heard.pieces).toHaveLength(1);
  expect(newest().url).toContain("after=7");
});

test("a sign-in that has ended is renewed before it connects again, or not at all", async () => {
  newest().accept();
  renewals.push(() => Promise.resolve(false));
  newest().break(4401);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(FakeSocket.made).toHaveLength(1);
});

test("events that are gone for good are said to be missing", () => {
  newest().accept();
  newest().say({ type: "history.truncated", oldest: 100 });
  expect(heard.gaps).toBe(1);
});

test("a line that answers no ping is given up", async () => {
  newest().accept();
  newest().say({ type: "stream.live", after: 1 });
  await vi.advanceTimersByTimeAsync(20_000);
  expect(newest().sent).toContain("ping");
  await vi.advanceTimersByTimeAsync(8_000);
  expect(FakeSocket.made).toHaveLength(2);
});

test("a line that answers is kept", async () => {
  newest().accept();
  await vi.advanceTimersByTimeAsync(20_000);
  newest().onmessage({ data: "pong" });
  await vi.advanceTimersByTimeAsync(10_000);
  expect(FakeSocket.made).toHaveLength(1);
});

test("waiting grows while nobody answers", async () => {
  for (let times = 0; times < 6; times += 1) {
    newest().break();
    await vi.advanceTimersByTimeAsync(30_000);
  }
  const before = FakeSocket.made.length;
  newest().break();
  await vi.advanceTimersByTimeAsync(5_000);
  expect(FakeSocket.made).toHaveLength(before);
});

test("what two parts of a page watch is watched until both have let it go", () => {
  newest().accept();
  const first = socket.watch("team", "t1");
  const second = socket.watch("team", "t1");
  first();
  expect(newest().sent).toEqual(['{"watch":"t1"}']);
  second();
  expect(newest().sent.at(-1)).toBe('{"unwatch":"t1"}');
});
