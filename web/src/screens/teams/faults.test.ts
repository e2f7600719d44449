import { describe, expect, it } from "vitest";

import { ApiProblem, type FieldFault } from "@/api/problem";

import { faultAt, faultsBelow, faultsOf, HANDLE_RULE } from "./faults";

function problem(code: string, detail: string, fields: FieldFault[] = [], hint?: string): ApiProblem {
  return new ApiProblem({ status: 422, code, title: code, detail, hint, requestId: undefined, retryAfter: undefined, fields });
}

describe("faultsOf", () => {
  it("takes the fields that the server names", () => {
    const error = problem("invalid", "…", [
      { field: "body.name", message: "String should have at least 1 character" },
      { field: "body.workers.1.name", message: "String should match pattern '^[a-z]$'" },
      { field: "body.leader.permissions.tools.1", message: "String should have at most 200 characters" },
    ]);
    expect(faultsOf(error)).toEqual({
      name: "This is needed.",
      "workers.1.name": HANDLE_RULE,
      "leader.permissions.tools.1": "String should have at most 200 characters",
    });
  });

  it("leaves a fault of the whole document to the problem itself", () => {
    expect(faultsOf(problem("invalid", "…", [{ field: "body", message: "Value error, two agents have the same name" }]))).toEqual({});
    expect(faultsOf(problem("bad_team", "the team: Value error, two agents have the same name"))).toEqual({});
  });

  it("reads the places in a refused change", () => {
    expect(faultsOf(problem("bad_team", "skills.0.files: Value error, each must be a plain path; leader.role: Too long"))).toEqual({
      "skills.0.files": "Each must be a plain path",
      "leader.role": "Too long",
    });
  });

  it("knows what a taken name, a wrong host and a missing model are about", () => {
    expect(faultsOf(problem("team_name_taken", "Another team is called A."))).toEqual({ name: "Another team is called A." });
    expect(faultsOf(problem("bad_allowed_host", "No host."))).toEqual({ allowed_hosts: "No host." });
    expect(faultsOf(problem("model_not_found", "There is no model x here."))).toEqual({ model: "There is no model x here." });
  });

  it("finds the agent that a model or tool is missing for", () => {
    const agents = ["lead", "tester"];
    expect(faultsOf(problem("model_not_found", "tester: There is no model x here."), agents)).toEqual({ "workers.0.model": "There is no model x here." });
    expect(faultsOf(problem("unknown_tool", "lead: There is no tool 'shel'.", [], "There are: shell."), agents)).toEqual({
      "leader.permissions.tools": "There is no tool 'shel'. There are: shell.",
    });
  });

  it("says nothing of fields where a problem is about something else", () => {
    expect(faultsOf(problem("forbidden", "You may not: do that"))).toEqual({});
  });
});

it("finds faults at a field and below it", () => {
  const faults = { "workers.1.name": "a", "workers.10.name": "b", command: "c", "leader.permissions.tools.1": "d" };
  expect(faultAt(faults, "command")).toBe("c");
  expect(faultAt(faults, "leader.permissions")).toBe("d");
  expect(faultAt(faults, "comm")).toBeUndefined();
  expect(faultsBelow(faults, "workers.1")).toEqual({ name: "a" });
});
