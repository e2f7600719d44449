type Fields = Record<string, unknown> | null | undefined;

export interface Change {
  /** The field, with a dot between levels: "leader.model". */
  field: string;
  kind: "added" | "removed" | "changed" | "same";
  before: string | undefined;
  after: string | undefined;
  /** Part of it is a secret that nobody gets to see. */
  hidden: boolean;
  /** For lists: what came and what went. */
  items: { added: string[]; removed: string[] } | undefined;
}

/** What the server writes in place of a secret. */
export const MASK = "•••";

/** What was different before and after, field by field; what changed comes first. */
export function changesOf(before: Fields, after: Fields): Change[] {
  const old = flat(before);
  const now = flat(after);
  const names = [...new Set([...old.keys(), ...now.keys()])];
  const changes = names.map((field) => changeOf(field, old.get(field), now.get(field), old.has(field), now.has(field)));
  return [...changes.filter((each) => each.kind !== "same"), ...changes.filter((each) => each.kind === "same")];
}

function changeOf(field: string, old: unknown, now: unknown, was: boolean, is: boolean): Change {
  const before = was ? shown(old) : undefined;
  const after = is ? shown(now) : undefined;
  const kind = !was ? "added" : !is ? "removed" : before === after ? "same" : "changed";
  const both = kind === "changed" && isList(old) && isList(now);
  return {
    field,
    kind,
    before,
    after,
    hidden: [before, after].some((text) => text?.includes(MASK)),
    items: both ? { added: missing(now, old), removed: missing(old, now) } : undefined,
  };
}

function isList(value: unknown): value is unknown[] {
  return Array.isArray(value) && value.every((each) => typeof each !== "object");
}

function missing(from: unknown[], there: unknown[]): string[] {
  return from.filter((each) => !there.includes(each)).map(String);
}

/** The fields of all levels by their path. */
function flat(fields: Fields, prefix = "", found = new Map<string, unknown>()): Map<string, unknown> {
  for (const [name, value] of Object.entries(fields ?? {})) {
    const isObject = typeof value === "object" && value !== null && !Array.isArray(value) && Object.keys(value).length > 0;
    if (isObject) flat(value as Record<string, unknown>, `${prefix}${name}.`, found);
    else found.set(`${prefix}${name}`, value);
  }
  return found;
}

function shown(value: unknown): string {
  if (value === null || value === undefined || value === "") return "nothing";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "string") return value;
  if (typeof value === "object" && Object.keys(value).length === 0) return "nothing";
  if (isList(value)) return value.join(", ");
  return JSON.stringify(value, null, typeof value === "object" ? 2 : 0);
}
