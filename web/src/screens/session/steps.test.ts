// @vitest-environment jsdom
import { describe, expect, it } from "vitest";

import type { Step } from "./journal";
import { answerOf, boundaryBefore, costUntil, planAt, summaryOf, visited, waterfall } from "./steps";

const T0 = Date.parse("2026-01-01T00:00:00Z");

function step(seq: number, more: Partial<Step> & { ends?: number } = {}): Step {
  const { ends, ...rest } = more;
  return {
    seq,
    parent: seq - 1,
    in_force: true,
    kind: "tool",
    name: "shell",
    status: "done",
    key: null,
    input: null,
    output: null,
    cost_micros: null,
    duration_ms: 0,
    at: new Date(T0 + (ends ?? seq * 1000)).toISOString(),
    ...rest,
  } as Step;
}

const calls = (...names: string[]) => ({
  parts: names.map((tool_name) => ({ part_kind: "tool-call", tool_name, args: "{}" })),
});

describe("waterfall", () => {
  it("leaves the time in which nothing was done out of the axis", () => {
    const bars = waterfall([
      step(1, { ends: 1000, duration_ms: 1000 }),
      // An hour of waiting.
      step(2, { ends: 3_601_000, duration_ms: 3000 }),
    ]);
    expect(bars.get(1)).toEqual({ from: 0, width: 0.25 });
    expect(bars.get(2)).toEqual({ from: 0.25, width: 0.75 });
  });

  it("lets steps that ran at once overlap", () => {
    const bars = waterfall([
      step(1, { ends: 2000, duration_ms: 2000 }),
      step(2, { ends: 3000, duration_ms: 2000 }),
    ]);
    expect(bars.get(1)).toEqual({ from: 0, width: 2 / 3 });
    expect(bars.get(2)!.from).toBeCloseTo(1 / 3);
  });

  it("has a place for steps that take no time", () => {
    expect(waterfall([step(1)]).get(1)).toEqual({ from: 0, width: 0 });
    expect(waterfall([])).toEqual(new Map());
  });
});

describe("costUntil", () => {
  it("counts undone steps, too", () => {
    const steps = [step(1, { cost_micros: 5 }), step(2, { cost_micros: 7, in_force: false }), step(3, { cost_micros: 100 })];
    expect(costUntil(steps, 2)).toBe(12);
  });
});

describe("boundaryBefore", () => {
  const steps = [
    step(1, { kind: "message" }),
    step(2, { kind: "model", output: calls("shell", "shell") }),
    step(3, { key: "2.0" }),
    step(4, { key: "2.1" }),
    step(5, { kind: "model", output: calls("shell") }),
  ];

  it("does not cut between calls and their results", () => {
    expect([1, 2, 3, 4, 5].map((seq) => boundaryBefore(steps, seq))).toEqual([1, 1, 1, 4, 4]);
  });

  it("knows the calls of an answer that is too large for a list by their results", () => {
    const large = steps.with(1, step(2, { kind: "model", output: { excerpt: "{", bytes: 9 } }));
    expect(boundaryBefore(large, 3)).toBe(1);
    expect(boundaryBefore(large, 4)).toBe(4);
  });

  it("follows the path of the step, not the numbers", () => {
    const back = [...steps, step(6, { kind: "rollback", parent: 1 }), step(7, { kind: "message" })];
    expect(boundaryBefore(back, 7)).toBe(7);
  });
});

describe("what a step says", () => {
  it("belongs to the answer that asked for it", () => {
    expect(answerOf(step(9, { key: "7.1" }))).toBe(7);
    expect(answerOf(step(9, { kind: "model", key: "turn.9" }))).toBe(0);
  });

  it("is one line of what went in and came out", () => {
    const ran = step(1, { input: { arguments: '{"command":"ls\\n-l"}' }, output: { text: "a\nb" } });
    expect(summaryOf(ran)).toBe("ls -l · a b");
    expect(summaryOf(step(1, { kind: "model", output: calls("shell", "shell", "python") }))).toBe("→ shell, python");
    expect(summaryOf(step(1, { input: { arguments: "{broken" } }))).toBe("");
  });
});

describe("a step too large for a list", () => {
  const cut = (value: unknown) => ({ excerpt: JSON.stringify(value).slice(0, -4), bytes: 9000 });

  it("is summed up from its beginning", () => {
    expect(summaryOf(step(1, { kind: "message", output: cut({ text: 'Say "hi"\nto all of them' }) }))).toBe('Say "hi" to all of th');
    expect(summaryOf(step(1, { kind: "model", output: cut({ parts: [{ content: "I write it." }] }) }))).toBe("I write it.");
    const input = cut({ call_id: "c", arguments: JSON.stringify({ path: "haiku.py", content: "x".repeat(50) }) });
    expect(summaryOf(step(1, { input, output: { text: "Wrote it." } }))).toBe("haiku.py · Wrote it.");
  });
});

describe("planAt", () => {
  it("is the last one noted on the way to a step", () => {
    const plan = (status: string) => ({ plan: [{ step: "Write", status }] });
    const steps = [
      step(1, { kind: "message" }),
      step(2, { output: plan("pending") }),
      step(3, { output: plan("done") }),
      step(4, { kind: "rollback", parent: 2 }),
    ];
    expect(planAt(steps, 3)[0]!.status).toBe("done");
    expect(planAt(steps, 4)[0]!.status).toBe("pending");
    expect(planAt(steps, 1)).toEqual([]);
  });
});

describe("visited", () => {
  it("counts how often a session came through a state", () => {
    const steps = [step(1, { kind: "state", name: "QUEUED" }), step(2, { kind: "state", name: "RUNNING" }), step(3, { kind: "state", name: "QUEUED" })];
    expect(Object.fromEntries(visited(steps))).toEqual({ CREATED: 1, QUEUED: 2, RUNNING: 1 });
  });
});
