import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { describe, expect, it } from "vitest";

import { groupScopes } from "./scopes";

interface Described {
  components: { schemas: { Scope: { enum: string[] } } };
}

// Vitest runs in web/.
const api = JSON.parse(readFileSync(resolve("../openapi.json"), "utf8")) as Described;
const all = api.components.schemas.Scope.enum;

describe("scopes in words", () => {
  it("cover every scope of the API exactly once, and nothing else", () => {
    const worded = groupScopes(all).flatMap((group) => group.scopes.map((each) => each.scope));
    expect([...worded].sort()).toEqual([...all].sort());
  });

  it("says something different about each", () => {
    const words = groupScopes(all).flatMap((group) => group.scopes.map((each) => each.words));
    expect(new Set(words).size).toBe(all.length);
  });

  it("leaves out what somebody does not hold, and groups without anything", () => {
    expect(groupScopes(["audit:read", "retired:read"])).toEqual([
      { name: "Safety", scopes: [{ scope: "audit:read", words: "Read the audit log" }] },
    ]);
  });
});
