import { describe, expect, it } from "vitest";

import { changesOf, MASK } from "./auditDiff";

const kinds = (before: Record<string, unknown> | null, after: Record<string, unknown> | null) =>
  changesOf(before, after).map((each) => [each.field, each.kind]);

describe("what an entry of the audit log changed", () => {
  it("tells added, removed and changed from what stayed, and puts that last", () => {
    expect(kinds({ name: "a", role: "member", old: 1 }, { name: "a", role: "admin", fresh: true })).toEqual([
      ["role", "changed"],
      ["old", "removed"],
      ["fresh", "added"],
      ["name", "same"],
    ]);
  });

  it("takes what was created or deleted as all added or all removed", () => {
    expect(kinds(null, { name: "a" })).toEqual([["name", "added"]]);
    expect(kinds({ name: "a" }, null)).toEqual([["name", "removed"]]);
    expect(changesOf(null, null)).toEqual([]);
  });

  it("looks into objects, level by level", () => {
    expect(changesOf({ leader: { model: "demo", name: "x" } }, { leader: { model: "auto", name: "x" } })[0]).toMatchObject({
      field: "leader.model",
      kind: "changed",
      before: "demo",
      after: "auto",
    });
    expect(kinds({ settings: {} }, { settings: { colour: "red" } })).toEqual([
      ["settings", "removed"],
      ["settings.colour", "added"],
    ]);
  });

  it("says what came into a list and what went out of it", () => {
    const [change] = changesOf({ scopes: ["a", "b"] }, { scopes: ["b", "c"] });
    expect(change).toMatchObject({ kind: "changed", items: { added: ["c"], removed: ["a"] } });
  });

  it("compares objects in lists as a whole", () => {
    const [change] = changesOf({ workers: [{ name: "a" }] }, { workers: [{ name: "b" }] });
    expect(change).toMatchObject({ kind: "changed", items: undefined });
    expect(changesOf({ workers: [{ name: "a" }] }, { workers: [{ name: "a" }] })[0]!.kind).toBe("same");
  });

  it("marks what is hidden", () => {
    expect(changesOf({ url: "https://a" }, { url: `https://${MASK}@a` })[0]!.hidden).toBe(true);
    expect(changesOf(null, { url: "https://a" })[0]!.hidden).toBe(false);
  });

  it("says nothing, yes and no in words, and keeps zero", () => {
    expect(changesOf({ cap: null, on: false }, { cap: 0, on: true }).map((each) => [each.before, each.after])).toEqual([
      ["nothing", "0"],
      ["no", "yes"],
    ]);
  });
});
