import { QueryClient, QueryObserver } from "@tanstack/react-query";
import { expect, test, vi } from "vitest";

import { concerns, Invalidation } from "./invalidation";

const event = (type: string, data: Record<string, unknown> = {}) => ({ seq: 1, id: "e", at: "", type, data });
const about = (path: Record<string, string>) => ({ params: { path } });

test("an event about a session concerns the list, that session and no other", () => {
  const paused = event("session.paused", { session_id: "s1" });
  expect(concerns(paused, "/api/sessions", undefined)).toBe(true);
  expect(concerns(paused, "/api/sessions/{session_id}", about({ session_id: "s1" }))).toBe(true);
  expect(concerns(paused, "/api/sessions/{session_id}", about({ session_id: "s2" }))).toBe(false);
  expect(concerns(paused, "/api/teams", undefined)).toBe(false);
});

test("a message concerns the conversation and the team it belongs to", () => {
  const finished = event("message.finished", { team_id: "t1", message_id: "m1" });
  expect(concerns(finished, "/api/teams/{team_id}/messages", about({ team_id: "t1" }))).toBe(true);
  expect(concerns(finished, "/api/teams/{team_id}/messages", about({ team_id: "t2" }))).toBe(false);
});

test("a name that begins alike is another thing", () => {
  expect(concerns(event("team.created"), "/api/team-templates", undefined)).toBe(false);
});

test("everything is in the audit log", () => {
  expect(concerns(event("secret.stored"), "/api/audit", undefined)).toBe(true);
});

test("progress concerns the session itself, not the lists and sums", () => {
  const progress = event("session.progress", { session_id: "s1" });
  expect(concerns(progress, "/api/sessions/{session_id}/steps", about({ session_id: "s1" }))).toBe(true);
  expect(concerns(progress, "/api/sessions", undefined)).toBe(false);
  expect(concerns(progress, "/api/usage", undefined)).toBe(false);
});

test("a first answer that was on its way when the event came is asked for again", async () => {
  vi.useFakeTimers();
  const client = new QueryClient();
  const answers: ((state: string) => void)[] = [];
  const seen: unknown[] = [];
  const observer = new QueryObserver(client, {
    queryKey: ["get", "/api/sessions/{session_id}", about({ session_id: "s1" })],
    queryFn: () => new Promise((answer) => answers.push(answer)),
  });
  const end = observer.subscribe((result) => seen.push(result.data));
  new Invalidation(client).add(event("session.completed", { session_id: "s1" }));
  await vi.advanceTimersByTimeAsync(300);
  answers[0]!("RUNNING");
  await vi.advanceTimersByTimeAsync(600);
  expect(answers).toHaveLength(2);
  answers[1]!("COMPLETE");
  await vi.advanceTimersByTimeAsync(600);
  expect(seen.at(-1)).toBe("COMPLETE");
  expect(answers).toHaveLength(2);
  end();
  vi.useRealTimers();
});
