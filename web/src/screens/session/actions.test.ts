import { describe, expect, it } from "vitest";

import { allowedActions } from "./actions";

const all = { sessions: true, budgets: true };
const names = (state: string, waiting: string | null = null) =>
  Object.keys(allowedActions({ state, waiting_for: waiting } as never, all)).sort();

describe("allowedActions", () => {
  it("gives nothing to those who may only read", () => {
    expect(allowedActions({ state: "RUNNING", waiting_for: null }, { sessions: false, budgets: true })).toEqual({});
  });

  it("lets a running session be paused and cancelled, and says why it cannot go back yet", () => {
    const allowed = allowedActions({ state: "RUNNING", waiting_for: null }, all);
    expect(allowed.pause).toEqual({});
    expect(allowed.cancel).toEqual({});
    expect(allowed.rollback?.blocked).toBe("Pause it first.");
    expect(allowed.continue).toBeUndefined();
  });

  it("lets an ended session go on, back and another way", () => {
    for (const state of ["COMPLETE", "FAILED", "ROLLED_BACK"]) {
      expect(names(state)).toEqual(["checkpoint", "continue", "fork", "restore", "rollback"]);
    }
  });

  it("resumes what somebody paused, not what goes on by itself", () => {
    expect(names("PAUSED", "pause")).toContain("resume");
    expect(names("PAUSED", "budget")).toContain("resume");
    expect(names("PAUSED", "retry")).toContain("resume");
    expect(names("PAUSED", "approval")).not.toContain("resume");
    expect(names("PAUSED", "children")).not.toContain("resume");
  });

  it("runs only what was never run, which has nothing to go back to", () => {
    expect(names("CREATED")).toContain("run");
    expect(names("CREATED")).not.toContain("rollback");
    expect(names("QUEUED")).not.toContain("run");
  });

  it("leaves budgets to those who may set them", () => {
    expect(allowedActions({ state: "PAUSED", waiting_for: "budget" }, { sessions: true, budgets: false }).budget).toBeUndefined();
  });
});
