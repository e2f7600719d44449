/** A part of a Markdown text that can be read by itself. */
export interface Block {
  /** Where it begins in the text; also its name, as text only grows at its end. */
  start: number;
  text: string;
  /** It is nothing but a fenced code block. */
  code: { language: string; body: string; closed: boolean } | undefined;
}

export interface Split {
  text: string;
  blocks: Block[];
}

/** From this length on a list is cut between its items: each growth reads its last block anew. */
const LONG = 2_000;
const FENCE = /^ {0,3}(`{3,}|~{3,})[ \t]*([^`\n]*)$/;
const ITEM = /^(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)/;

/** Cuts Markdown into its top-level blocks; of a text that grew only what is new is read again. */
export function splitBlocks(text: string, before?: Split): Split {
  const kept = before && before.blocks.length > 1 && text.startsWith(before.text) ? before.blocks.slice(0, -1) : [];
  const from = kept.length > 0 ? before!.blocks.at(-1)!.start : 0;
  return { text, blocks: [...kept, ...cut(text, from)] };
}

function cut(text: string, from: number): Block[] {
  const blocks: Block[] = [];
  let start = from;
  let isList = false;
  let blank = false;
  let fence: string | undefined;
  const end = (at: number) => {
    if (text.slice(start, at).trim() !== "") blocks.push(blockOf(text, start, at));
    start = at;
    isList = false;
  };
  for (let at = from; at < text.length; ) {
    const next = lineEnd(text, at);
    const line = text.slice(at, next).replace(/\r?\n$/, "");
    if (fence !== undefined) {
      if (closes(line, fence)) {
        fence = undefined;
        end(next);
      }
    } else if (line.trim() === "") {
      blank = true;
    } else {
      const opened = FENCE.exec(line);
      const item = ITEM.test(line);
      if (opened && !(isList && line.startsWith(" "))) {
        end(at);
        fence = opened[1];
      } else if (blank ? !goesOn(line, item, isList) || (item && at - start > LONG) : item && isList && at - start > LONG) {
        end(at);
      }
      if (text.slice(start, at).trim() === "" && fence === undefined) isList = item;
      blank = false;
    }
    at = next;
  }
  end(text.length);
  return blocks;
}

/** Whether a line after an empty one still belongs to the list before it. */
function goesOn(line: string, item: boolean, isList: boolean): boolean {
  return isList && (item || /^(?: {2,}|\t)/.test(line));
}

function lineEnd(text: string, at: number): number {
  const end = text.indexOf("\n", at);
  return end === -1 ? text.length : end + 1;
}

function closes(line: string, fence: string): boolean {
  const bare = line.trim();
  return bare.length >= fence.length && bare === fence[0]!.repeat(bare.length) && !/^ {4}/.test(line);
}

function blockOf(text: string, start: number, end: number): Block {
  const own = text.slice(start, end);
  const leading = own.length - own.replace(/^(?:[ \t]*\r?\n)+/, "").length;
  const first = own.slice(leading, lineEnd(own, leading));
  const opened = FENCE.exec(first.trimEnd());
  if (!opened) return { start, text: own, code: undefined };
  const lines = own.slice(leading + first.length).trimEnd().split("\n");
  const closed = lines.length > 0 && closes(lines.at(-1)!, opened[1]!);
  const body = closed ? lines.slice(0, -1).join("\n") : own.slice(leading + first.length).replace(/\n$/, "");
  return { start, text: own, code: { language: opened[2]!.trim().split(/\s/)[0] ?? "", body, closed } };
}

const DEFINITION = /^ {0,3}\[([^\]^][^\]]*)\]:[ \t]*\S.*$/gm;

/** Where links lead that are named in one block and used in others, e.g. `[docs]: https://…`. */
export function definitionsOf(blocks: Block[]): Map<string, string> {
  const found = new Map<string, string>();
  for (const block of blocks) {
    if (block.code || !block.text.includes("]:")) continue;
    for (const match of block.text.matchAll(DEFINITION)) found.set(match[1]!.toLowerCase(), match[0]);
  }
  return found;
}

/** A block with the definitions that it uses and does not hold. */
export function withDefinitions(text: string, definitions: Map<string, string>): string {
  if (definitions.size === 0) return text;
  const lower = text.toLowerCase();
  const used = [...definitions].filter(([label, line]) => lower.includes(`[${label}]`) && !text.includes(line));
  return used.length === 0 ? text : `${text.trimEnd()}\n\n${used.map(([, line]) => line).join("\n")}`;
}
