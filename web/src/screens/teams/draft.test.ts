import { describe, expect, it } from "vitest";

import type { Schemas } from "@/api/types";

import { blankDraft, draftFaults, draftOf, newWorker, teamCreate } from "./draft";

const TEMPLATE: Schemas["TemplateRead"] = {
  id: "desk",
  name: "Desk",
  description: "Answers.",
  provider: "native",
  agents: ["editor", "researcher"],
  definition: {
    name: "Desk",
    description: "Answers.",
    provider: "native",
    model: "auto",
    leader: { name: "editor", role: "Leads", instructions: "  Lead.\n", permissions: { ask: ["shell"] } },
    workers: [{ name: "researcher", role: "Reads", instructions: "Read.", model: "demo/demo", skills: ["style"] }],
    skills: [{ name: "style", description: "How we write", instructions: "Plainly." }],
    allowed_hosts: ["example.com"],
    answer_seconds: 60,
  },
};

describe("teamCreate", () => {
  it("keeps all of a template, also what the builder does not show", () => {
    expect(teamCreate(draftOf(TEMPLATE))).toEqual({
      name: "Desk",
      description: "Answers.",
      provider: "native",
      model: "auto",
      leader: { name: "editor", role: "Leads", instructions: "  Lead.\n", model: null, skills: [], permissions: { ask: ["shell"] } },
      workers: [{ name: "researcher", role: "Reads", instructions: "Read.", model: "demo/demo", skills: ["style"] }],
      skills: [{ name: "style", description: "How we write", instructions: "Plainly." }],
      allowed_hosts: ["example.com"],
      answer_seconds: 60,
      deploy: true,
    });
  });

  it("sends a runtime only for an agent CLI and a command only for ACP", () => {
    const draft = { ...draftOf(TEMPLATE), command: "left over" };
    expect(teamCreate(draft)).not.toHaveProperty("runtime");
    const cli = teamCreate({ ...draft, provider: "claude-code", runtime: "docker" });
    expect(cli.runtime).toBe("docker");
    expect(cli).not.toHaveProperty("command");
    expect(teamCreate({ ...draft, provider: "acp", command: `agent --name "my agent"` }).command).toEqual(["agent", "--name", "my agent"]);
  });

  it("trims names and roles, and leaves instructions alone", () => {
    const draft = blankDraft();
    const body = teamCreate({ ...draft, name: " Crew ", leader: { ...draft.leader, name: " lead ", instructions: "\n text " } });
    expect(body.name).toBe("Crew");
    expect(body.leader.name).toBe("lead");
    expect(body.leader.instructions).toBe("\n text ");
  });
});

describe("draftFaults", () => {
  it("finds what is missing, misnamed or double", () => {
    const draft = blankDraft();
    const worker = newWorker(draft);
    expect(draftFaults({ ...draft, provider: "acp", workers: [{ ...worker, name: "Big Name" }, { ...worker, name: "leader" }] })).toEqual({
      name: "Give the team a name.",
      command: "An ACP team needs the command that starts its agent.",
      "workers.0.name": expect.stringContaining("Small letters"),
      "workers.1.name": "Another agent has this name.",
    });
  });

  it("is content with a named template", () => {
    expect(draftFaults(draftOf(TEMPLATE))).toEqual({});
  });
});

it("gives new workers names that are free", () => {
  const draft = blankDraft();
  const one = { ...draft, workers: [newWorker(draft)] };
  expect(one.workers[0]?.name).toBe("worker");
  expect(newWorker(one).name).toBe("worker-2");
});
