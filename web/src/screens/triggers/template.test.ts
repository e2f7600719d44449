// @vitest-environment jsdom
import { describe, expect, it } from "vitest";

import { exampleBody, hookCurl, templateFault, variablesOf } from "./template";

const example = (template: string) => exampleBody(variablesOf(template));

describe("variablesOf", () => {
  it("finds each once, in order", () => {
    expect(variablesOf("{{issue.title}} {{ body }} {{issue.title}}")).toEqual([
      { path: "issue.title", optional: false },
      { path: "body", optional: false },
    ]);
  });

  it("takes it for needed if it is needed somewhere", () => {
    expect(variablesOf("{{a?}} {{b?}} {{a}}")).toEqual([
      { path: "a", optional: false },
      { path: "b", optional: true },
    ]);
  });

  it("leaves out what is no path", () => expect(variablesOf("{{}} {{a b}} {{a..b}} {a}")).toEqual([]));
});

it("says what is wrong with a template", () => {
  expect(templateFault("{{a.0.b?}} and { } }}")).toBeUndefined();
  expect(templateFault("{{a b}}")).toContain("not a path");
  expect(templateFault("Hello {{name")).toBe("A {{ has no }}.");
});

describe("exampleBody", () => {
  it("nests paths and makes lists of numbers", () => {
    expect(example("{{issue.title}} {{issue.number}} {{items.1.name}}")).toEqual({
      issue: { title: "Example title", number: 42 },
      items: [null, { name: "Example name" }],
    });
  });

  it("reads body as all of what is sent", () => {
    expect(example("{{body.user.eMail}}")).toEqual({ user: { eMail: "ada@example.com" } });
    expect(example("{{body.0}}")).toEqual(["An item"]);
    expect(example("{{body}}")).toEqual({ text: "Something happened" });
    expect(example("no variables")).toEqual({});
  });

  it("has the deeper of two paths, which serves both", () => expect(example("{{a}} {{a.b}}")).toEqual({ a: { b: "Example b" } }));

  it("makes no list of a large number", () => expect(example("{{byId.4711}}")).toEqual({ byId: { 4711: "An item" } }));
});

it("writes a call that a shell reads as it is", () => {
  const line = hookCurl(`{"a": "it's"}`);
  expect(line).toContain(`/api/hooks/$WEBHOOK_TOKEN"`);
  expect(line).toContain(`-d '{"a": "it'\\''s"}'`);
  expect(hookCurl("{}", "whk_1")).toContain(`/api/hooks/whk_1"`);
});
