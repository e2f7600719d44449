const BEFORE = 60;
const LENGTH = 220;

/** The part of a text around the words that were looked for, on one line. */
export function excerpt(text: string, words: string): string {
  const line = text.replace(/\s+/g, " ").trim();
  const at = line.toLowerCase().indexOf(words.toLowerCase());
  const start = at > BEFORE ? at - BEFORE : 0;
  const end = start + LENGTH;
  return `${start > 0 ? "…" : ""}${line.slice(start, end)}${end < line.length ? "…" : ""}`;
}
