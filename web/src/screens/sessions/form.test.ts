import { expect, test } from "vitest";

import { bodyOf, EMPTY_FORM, faultsOf } from "./form";

test("what was left empty is left to the server", () => {
  expect(bodyOf({ ...EMPTY_FORM, prompt: " Do it " })).toEqual({ prompt: "Do it", model: "auto" });
});

test("dollars become micros, minutes seconds, and hosts a list", () => {
  const body = bodyOf({ ...EMPTY_FORM, prompt: "x", budget: "0.5", maxMinutes: "1.5", hosts: "a.example\n b.example " });
  expect(body).toMatchObject({ budget_micros: 500_000, guards: { max_seconds: 90 }, allowed_hosts: ["a.example", "b.example"] });
});

test("each gate is sent with what it checks", () => {
  const gates = [
    { kind: "cost" as const, name: "cheap", value: "0.02", onFail: "fail" as const },
    { kind: "approval" as const, name: "look", value: "Is it good?", onFail: "retry" as const },
    { kind: "tests" as const, name: "tests", value: "", onFail: "retry" as const },
  ];
  expect(bodyOf({ ...EMPTY_FORM, prompt: "x", gates }).gates).toEqual([
    { kind: "cost", name: "cheap", on_fail: "fail", most_micros: 20_000 },
    { kind: "approval", name: "look", on_fail: "retry", question: "Is it good?" },
    { kind: "tests", name: "tests", on_fail: "retry" },
  ]);
});

test.each([
  ["budget", "much"],
  ["maxTurns", "0"],
  ["maxTurns", "2.5"],
  ["priority", "101"],
  ["outputSchema", "[1]"],
  ["outputSchema", "{"],
] as const)("%s %s is refused before it is sent", (field, value) => {
  expect(faultsOf({ ...EMPTY_FORM, [field]: value })).toHaveProperty(field);
});
