export interface Line {
  kind: "added" | "removed" | "same" | "note";
  text: string;
  /** Its number in the file before and after; undefined where it is not. */
  before: number | undefined;
  after: number | undefined;
}

export interface Hunk {
  head: string;
  lines: Line[];
}

const HEAD = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/;
const KINDS: Record<string, Line["kind"]> = { "+": "added", "-": "removed", " ": "same", "\\": "note" };

/** Takes a unified diff of one file apart, with the numbers of its lines. */
export function parseDiff(diff: string): Hunk[] {
  const hunks: Hunk[] = [];
  let before = 0;
  let after = 0;
  for (const row of diff.replace(/\n$/, "").split("\n")) {
    const head = HEAD.exec(row);
    if (head) {
      before = Number(head[1]);
      after = Number(head[2]);
      hunks.push({ head: row, lines: [] });
      continue;
    }
    const hunk = hunks.at(-1);
    // Before the first hunk are the names of the file.
    if (!hunk) continue;
    const kind = KINDS[row[0] ?? " "] ?? "same";
    const isBefore = kind === "same" || kind === "removed";
    const isAfter = kind === "same" || kind === "added";
    hunk.lines.push({
      kind,
      text: row.slice(1),
      before: isBefore ? before : undefined,
      after: isAfter ? after : undefined,
    });
    if (isBefore) before += 1;
    if (isAfter) after += 1;
  }
  return hunks;
}

/** How many lines were added and removed. */
export function countLines(hunks: Hunk[]): { added: number; removed: number } {
  const lines = hunks.flatMap((hunk) => hunk.lines);
  return {
    added: lines.filter((line) => line.kind === "added").length,
    removed: lines.filter((line) => line.kind === "removed").length,
  };
}
