import { describe, expect, it } from "vitest";

import { type Activity, type Chunk, type Counting, hear, type Heard, NOTHING, readPiece } from "./answer";

const chunk = (n: number, text: string, more: Partial<Chunk> = {}): Chunk => ({
  kind: "chunk", messageId: "m", n, text, agent: null, reset: false, ...more,
});
const deed = (n: number, id: string, state: Activity["deed"]["state"] = "running", agent: string | null = null): Activity => ({
  kind: "activity", messageId: "m", n, deed: { id, tool: "shell", summary: "ls", state, agent },
});
const all = (pieces: (Chunk | Activity)[], counting: Counting = "together", from: Heard = NOTHING) =>
  pieces.reduce((heard, piece) => hear(heard, piece, counting), from);
const said = (heard: Heard) => heard.words.map((words) => words.text).join("|");

describe("words", () => {
  it("come one after the other", () => {
    const heard = all([chunk(0, "It ", { reset: true }), chunk(1, "is "), chunk(2, "84.")]);
    expect(said(heard)).toBe("It is 84.");
    expect(heard.missing).toBe("nothing");
  });

  it("are void after a reset, also one without words", () => {
    const before = [chunk(0, "Let me see.", { reset: true }), chunk(1, " Hm.")];
    expect(said(all([...before, chunk(2, "84", { reset: true })]))).toBe("84");
    expect(said(all([...before, chunk(2, "", { reset: true })]))).toBe("");
  });

  it("are taken once", () => {
    const once = all([chunk(0, "a", { reset: true }), chunk(1, "b")]);
    expect(hear(once, chunk(1, "b"), "together")).toBe(once);
    expect(said(all([chunk(0, "a", { reset: true }), chunk(0, "a", { reset: true })]))).toBe("a");
  });

  it("that are missing are marked, and the rest is shown", () => {
    const heard = all([chunk(0, "a", { reset: true }), chunk(3, "d"), chunk(4, "e")]);
    expect(heard.missing).toBe("middle");
    expect(said(heard)).toBe("a… de");
  });

  it("are whole again after a reset", () => {
    expect(all([chunk(0, "a", { reset: true }), chunk(3, "d"), chunk(4, "e", { reset: true })]).missing).toBe("nothing");
  });

  it("heard from the middle on begin with an ellipsis", () => {
    const heard = all([chunk(7, "and so on"), chunk(8, ".")]);
    expect(heard.missing).toBe("beginning");
    expect(said(heard)).toBe("… and so on.");
  });

  it("of an agent CLI are whole from number 1 on", () => {
    const heard = all([chunk(1, "a"), deed(1, "t"), deed(2, "t", "done"), chunk(2, "b")], "apart");
    expect(heard.missing).toBe("nothing");
    expect(said(heard)).toBe("ab");
  });

  it("of a native team are counted together with deeds", () => {
    const heard = all([chunk(0, "a", { reset: true }), deed(1, "t"), deed(2, "t", "done"), chunk(3, "b")]);
    expect(heard.missing).toBe("nothing");
    expect(all([chunk(0, "a", { reset: true }), deed(1, "t"), chunk(3, "b")]).missing).toBe("middle");
  });

  it("start over when another worker goes on", () => {
    const heard = all([chunk(5, "a", { reset: true }), deed(0, "t", "done"), chunk(1, "b", { reset: true }), chunk(2, "c")]);
    expect(said(heard)).toBe("bc");
    expect(heard.missing).toBe("nothing");
  });

  it("of workers stay apart from the leader's", () => {
    const heard = all([chunk(1, "I ask."), chunk(2, "On it", { agent: "scout" }), chunk(3, ".", { agent: "scout" }), chunk(4, "Done.")], "apart");
    expect(heard.words).toEqual([
      { agent: null, text: "I ask." },
      { agent: "scout", text: "On it." },
      { agent: null, text: "Done." },
    ]);
  });

  it("that go on without a gap after the line was lost are sure again", () => {
    const lost = { ...all([chunk(0, "a", { reset: true })]), unsure: true };
    expect(hear(lost, chunk(1, "b"), "together")).toMatchObject({ unsure: false, missing: "nothing" });
    expect(hear(lost, chunk(2, "c"), "together")).toMatchObject({ unsure: false, missing: "middle" });
  });
});

describe("an answer that is repeated", () => {
  const before = [chunk(1, "I ask."), chunk(2, "On it.", { agent: "scout" }), deed(1, "t"), chunk(3, "And")];
  const repeat = [
    chunk(4, "I ask.", { reset: true }), chunk(5, "On it.", { agent: "scout" }), chunk(6, "And"), deed(2, "t"),
  ];
  const after = [chunk(7, " so on."), deed(3, "t", "done")];

  it("is the same to whoever knows it", () => {
    const known = all(before, "apart");
    expect(all(repeat, "apart", known)).toEqual({ ...known, last: 6 });
    expect(all([...repeat, ...after], "apart", known)).toMatchObject({
      words: all([...before, chunk(4, " so on.")], "apart").words,
      missing: "nothing",
    });
  });

  it("is whole to whoever is new, also after some words of its middle", () => {
    const whole = all([...before, ...repeat, ...after], "apart");
    expect(all([...repeat, ...after], "apart")).toEqual(whole);
    expect(all([before.at(-1)!, ...repeat, ...after], "apart")).toEqual(whole);
    expect(whole.words.at(-1)).toEqual({ agent: null, text: "And so on." });
  });

  it("does not begin a deed again that has ended", () => {
    expect(all([...before, deed(2, "t", "done"), ...repeat], "apart").deeds[0]!.state).toBe("done");
  });
});

describe("deeds", () => {
  it("begin and end", () => {
    expect(all([deed(0, "t"), deed(1, "u"), deed(2, "t", "done")]).deeds.map((each) => [each.id, each.state])).toEqual([
      ["t", "done"],
      ["u", "running"],
    ]);
  });

  it("do not begin again", () => {
    expect(all([deed(0, "t", "failed"), deed(1, "t")]).deeds[0]!.state).toBe("failed");
  });
});

describe("readPiece", () => {
  it("fills in what is left out", () => {
    expect(readPiece({ type: "message.chunk", message_id: "m", n: 2, text: "a" })).toEqual(chunk(2, "a"));
    expect(readPiece({ type: "message.activity", message_id: "m", n: 1, deed: { id: "t", tool: "shell" } })).toMatchObject({
      deed: { id: "t", tool: "shell", summary: "", state: "done", agent: null },
    });
  });

  it("drops what it does not know", () => {
    expect(readPiece({ type: "message.sung", message_id: "m", n: 1 })).toBeUndefined();
    expect(readPiece({ type: "message.chunk", text: "a" })).toBeUndefined();
  });
});

describe("workers of a native team in several processes", () => {
  it("are all heard, whatever they count from", () => {
    const heard = all([
      chunk(5, "I ask.", { reset: true }),
      chunk(0, "One", { agent: "a" }),
      chunk(40, "Two", { agent: "b" }),
      chunk(1, "!", { agent: "b" }),
    ]);
    expect(heard.words).toEqual([
      { agent: null, text: "I ask." },
      { agent: "a", text: "One" },
      { agent: "b", text: "Two!" },
    ]);
    expect(heard.missing).toBe("nothing");
  });
});
