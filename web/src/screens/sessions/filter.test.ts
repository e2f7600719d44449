import { expect, test } from "vitest";

import { queryOf } from "./filter";

const team = "0198c0de-0000-7000-8000-000000000001";

test("an address becomes a question to the API", () => {
  expect(queryOf({ q: "haiku", state: "failed", team })).toEqual({ q: "haiku", state: ["FAILED"], team_id: team });
  expect(queryOf({ state: "active" }).state).toContain("RUNNING");
});

test("what makes no sense in an address does not restrict", () => {
  expect(queryOf({ state: "exploded", team: "not-an-id" })).toEqual({});
});
