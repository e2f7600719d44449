import { describe, expect, it } from "vitest";

import { actionWords, auditQuery } from "./auditFilter";

describe("the filter of the audit log", () => {
  it("asks for nothing special without one", () => {
    expect(auditQuery({})).toEqual({});
  });

  it("takes a target as a kind, or as one thing of it", () => {
    expect(auditQuery({ target: "team" })).toEqual({ target_kind: "team" });
    expect(auditQuery({ target: "secret/a/b" })).toEqual({ target_kind: "secret", target_id: "a/b" });
  });

  it("begins on a day in the reader's time zone", () => {
    expect(auditQuery({ since: "2026-11-03" }).since).toBe(new Date(2026, 10, 3).toISOString());
    expect(auditQuery({ since: "yesterday" })).toEqual({});
    expect(auditQuery({ since: "2026-13-40" })).toEqual({});
  });

  it("reads actions as words", () => {
    expect(actionWords("member.role_changed")).toBe("Member role changed");
    expect(actionWords("api_key.created")).toBe("API key created");
  });
});
