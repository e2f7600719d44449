import { describe, expect, it } from "vitest";

import { joinCommand, splitCommand } from "./commandLine";
import { skillChange } from "./documents";
import { draftOfServer, serverFaults, serverOf } from "./mcp";
import { settingsChange, settingsOf } from "./settings";
import type { TeamDetails } from "./teamQueries";

const agent = (name: string, leader: boolean, skills: string[]) => ({ name, leader, role: "", instructions: "", model: null, skills, permissions: {} });
const style = { name: "style", description: "How we write", instructions: "Plainly.", files: {} };
const other = { ...style, name: "other" };

const team = {
  name: "Crew",
  description: "",
  provider: "native",
  runtime: null,
  model: "auto",
  command: null,
  allowed_hosts: ["a.example"],
  answer_seconds: 1800,
  leader: agent("lead", true, ["style"]),
  workers: [agent("one", false, []), agent("two", false, ["other", "style"])],
  skills: [style, other],
} as unknown as TeamDetails;

describe("skillChange", () => {
  it("adds and changes without touching the agents", () => {
    expect(skillChange(team, undefined, { ...style, name: "new" })).toEqual({ skills: [style, other, { ...style, name: "new" }] });
    expect(skillChange(team, "other", { ...other, description: "x" })).toEqual({ skills: [style, { ...other, description: "x" }] });
  });

  it("renames it for the agents that know it", () => {
    const change = skillChange(team, "style", { ...style, name: "voice" });
    expect(change.skills?.map((skill) => skill.name)).toEqual(["voice", "other"]);
    expect(change.leader).toEqual({ name: "lead", role: "", instructions: "", model: null, skills: ["voice"], permissions: {} });
    expect(change.workers?.map((worker) => worker.skills)).toEqual([[], ["other", "voice"]]);
  });

  it("takes a removed one from them, and from nobody else", () => {
    const change = skillChange(team, "other", null);
    expect(change.skills).toEqual([style]);
    expect(change.leader).toBeUndefined();
    expect(change.workers?.map((worker) => worker.skills)).toEqual([[], ["style"]]);
  });
});

describe("MCP servers", () => {
  it("come back as they were, with secrets by name", () => {
    const remote = { name: "github", url: "https://x.example/mcp", headers: { Authorization: { secret: "token" }, "X-A": "b" }, tools: null, timeout_seconds: 60 };
    expect(serverOf(draftOfServer(remote))).toEqual(remote);
    const local = { name: "files", command: ["python3", "my server.py"], env: { KEY: { secret: "k" } }, tools: ["read"], timeout_seconds: 5 };
    expect(serverOf(draftOfServer(local))).toEqual(local);
  });

  it("send the fields of one way only", () => {
    const draft = { ...draftOfServer({ name: "a", url: "https://x.example", timeout_seconds: 60 }), command: "left over", kind: "url" as const };
    expect(serverOf(draft)).not.toHaveProperty("command");
    expect(serverOf({ ...draft, kind: "command" })).not.toHaveProperty("url");
  });

  it("are looked through before they are sent", () => {
    const draft = draftOfServer({ name: "Bad", url: "ftp://x", timeout_seconds: 0, headers: { A: { secret: "" } } });
    expect(Object.keys(serverFaults(draft)).sort()).toEqual(["headers", "name", "timeout_seconds", "url"]);
  });
});

describe("settingsChange", () => {
  it("is empty where nothing changed", () => {
    expect(settingsChange(team, settingsOf(team))).toEqual({});
  });

  it("holds only what changed", () => {
    expect(settingsChange(team, { ...settingsOf(team), name: " Other ", allowedHosts: "a.example\n\nb.example" })).toEqual({
      name: "Other",
      allowed_hosts: ["a.example", "b.example"],
    });
  });
});

it("takes command lines apart and puts them together again", () => {
  expect(splitCommand(`a "b c" 'd "e"' ""  f`)).toEqual(["a", "b c", 'd "e"', "", "f"]);
  for (const words of [["a", "b c"], ["", `it's "so"`], ['"'], ["plain"]]) expect(splitCommand(joinCommand(words))).toEqual(words);
});
