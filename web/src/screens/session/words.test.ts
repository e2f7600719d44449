import { describe, expect, it } from "vitest";

import { hear, unwritten, type Words } from "./words";

const piece = (step: number, text: string, done = false, reset = false) => ({ type: "session.words", session_id: "s", step, text, done, reset });
const all = (...pieces: ReturnType<typeof piece>[]) => pieces.reduce<Words | undefined>(hear, undefined);

describe("words", () => {
  it("joins the pieces of one answer", () => {
    expect(all(piece(4, "Hel"), piece(4, "lo"), piece(4, "", true))).toEqual({ step: 4, text: "Hello", done: true });
  });

  it("begins anew with the next answer", () => {
    expect(all(piece(4, "Old"), piece(7, "New"))).toEqual({ step: 7, text: "New", done: false });
  });

  it("begins anew when the same answer is given again", () => {
    expect(all(piece(4, "First try", true), piece(4, "Second"))?.text).toBe("Second");
  });

  it("begins anew when an answer is told from its beginning", () => {
    expect(all(piece(4, "Hel", false, true), piece(4, "Hel", false, true), piece(4, "lo"))).toEqual({ step: 4, text: "Hello", done: false });
    expect(all(piece(7, "New"), piece(4, "late", false, true))?.text).toBe("New");
  });

  it("ignores what came late or is no piece", () => {
    expect(all(piece(7, "New"), piece(4, "late"))?.text).toBe("New");
    expect(hear(undefined, { type: "session.words", session_id: "s" })).toBeUndefined();
  });

  it("shows words only until their step is in the journal", () => {
    const words = all(piece(4, "Hello"));
    expect(unwritten(words, 3)?.text).toBe("Hello");
    expect(unwritten(words, 4)).toBeUndefined();
    expect(unwritten(undefined, 0)).toBeUndefined();
  });
});
