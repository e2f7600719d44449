import { describe, expect, it } from "vitest";

import { countLines, parseDiff } from "./diff";

const DIFF = `--- a/x.txt
+++ b/x.txt
@@ -1,3 +1,4 @@
 a
-b
+B
 c
+d
`;

describe("parseDiff", () => {
  it("numbers the lines of both sides", () => {
    const [hunk] = parseDiff(DIFF);
    expect(hunk!.lines.map((line) => [line.kind, line.before, line.after, line.text])).toEqual([
      ["same", 1, 1, "a"],
      ["removed", 2, undefined, "b"],
      ["added", undefined, 2, "B"],
      ["same", 3, 3, "c"],
      ["added", undefined, 4, "d"],
    ]);
  });

  it("starts each hunk where its head says", () => {
    const hunks = parseDiff("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-x\n+y\n@@ -40,2 +41,2 @@\n p\n-q\n+r\n");
    expect(hunks).toHaveLength(2);
    expect(hunks[1]!.lines[0]).toMatchObject({ before: 40, after: 41, text: "p" });
  });

  it("takes lines that look like heads of files for what they are", () => {
    const [hunk] = parseDiff("--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n--- old\n+++ new\n \n");
    expect(hunk!.lines.map((line) => [line.kind, line.text])).toEqual([
      ["removed", "-- old"],
      ["added", "++ new"],
      ["same", ""],
    ]);
  });

  it("does not count the note about the end of the file as a line", () => {
    const hunks = parseDiff("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-x\n\\ No newline at end of file\n+y\n");
    expect(hunks[0]!.lines[1]).toMatchObject({ kind: "note", before: undefined, after: undefined });
    expect(countLines(hunks)).toEqual({ added: 1, removed: 1 });
  });

  it("finds nothing where nothing differs", () => {
    expect(parseDiff("")).toEqual([]);
  });
});
