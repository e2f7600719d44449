import { describe, expect, it } from "vitest";

import { type Decision, otherPolicies, standardOf } from "./policies";

const policy = (subject: string, decision: Decision) => ({ id: subject, subject, decision, created_by: "", updated_at: "" });

describe("what counts for a tool without a decision of its own", () => {
  it("is what AgentOS brings along if nothing was decided", () => {
    expect(standardOf({ name: "shell", tier: "dangerous" }, [])).toEqual({ decision: "allow", by: null });
    expect(standardOf({ name: "http_send", tier: "destructive" }, [])).toEqual({ decision: "ask", by: null });
  });

  it("is its tier's decision before that", () => {
    expect(standardOf({ name: "shell", tier: "dangerous" }, [policy("tier:dangerous", "ask"), policy("tier:safe", "deny")])).toEqual({
      decision: "ask",
      by: "tier:dangerous",
    });
  });

  it("is the longest pattern's before its tier's", () => {
    const policies = [policy("tier:dangerous", "deny"), policy("http_*", "ask"), policy("http_f*", "allow"), policy("x*", "deny")];
    expect(standardOf({ name: "http_fetch", tier: "dangerous" }, policies)).toEqual({ decision: "allow", by: "http_f*" });
  });

  it("is not its own decision", () => {
    expect(standardOf({ name: "shell", tier: "dangerous" }, [policy("shell", "deny")])).toEqual({ decision: "allow", by: null });
  });
});

it("tells patterns and foreign tools from listed tools and tiers", () => {
  const policies = [policy("shell", "ask"), policy("tier:safe", "ask"), policy("mcp__x__*", "ask"), policy("mcp__x__y", "deny")];
  expect(otherPolicies([{ name: "shell" }], policies).map((each) => each.subject)).toEqual(["mcp__x__*", "mcp__x__y"]);
});
