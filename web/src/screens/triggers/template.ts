import { serverUrl } from "@/lib/base";

export interface Variable {
  path: string;
  /** Written `{{path?}}` wherever it stands. */
  optional: boolean;
}

const PLACE = /\{\{\s*([\s\S]*?)\s*\}\}/g;
const PATH = /^[^\s.{}?]+(?:\.[^\s.{}?]+)*\??$/;

/** What a template names, each once, in the order of the text. */
export function variablesOf(template: string): Variable[] {
  const found = new Map<string, boolean>();
  for (const [, written = ""] of template.matchAll(PLACE)) {
    if (!PATH.test(written)) continue;
    const path = written.replace(/\?$/, "");
    found.set(path, (found.get(path) ?? true) && written.endsWith("?"));
  }
  return [...found].map(([path, optional]) => ({ path, optional }));
}

/** What is wrong with a template, in words. */
export function templateFault(template: string): string | undefined {
  for (const [, written = ""] of template.matchAll(PLACE)) {
    if (!PATH.test(written)) return `{{${written}}} is not a path. Write {{name}} or {{a.path.0}}.`;
  }
  return template.replace(PLACE, "").includes("{{") ? "A {{ has no }}." : undefined;
}

/** A JSON document that has all that the variables name, with made-up values. */
export function exampleBody(variables: Variable[]): unknown {
  const paths = variables.filter(({ path }) => path !== "body").map(({ path }) => path.split("."));
  if (paths.length === 0) return variables.length > 0 ? { text: "Something happened" } : {};
  const root: Tree = new Map();
  // `body` is all of what was sent, whatever it is called there.
  for (const path of paths) grow(root, path[0] === "body" ? path.slice(1) : path);
  return settle(root);
}

type Tree = Map<string, Tree>;

function grow(tree: Tree, path: string[]): void {
  let at = tree;
  for (const name of path) {
    const below = at.get(name) ?? new Map<string, Tree>();
    at.set(name, below);
    at = below;
  }
}

function settle(tree: Tree): unknown {
  const names = [...tree.keys()];
  const value = (name: string): unknown => (tree.get(name)!.size === 0 ? sample(name) : settle(tree.get(name)!));
  const longest = Math.max(...names.map(Number));
  // A list that would have to be this long was meant as something else.
  if (names.every((name) => /^\d{1,9}$/.test(name)) && longest < 20) {
    return Array.from({ length: longest + 1 }, (_, index) => (tree.has(String(index)) ? value(String(index)) : null));
  }
  return Object.fromEntries(names.map((name) => [name, value(name)]));
}

function sample(name: string): unknown {
  if (/^\d+$/.test(name)) return "An item";
  if (/(^|_)(id|number|count|size)$/i.test(name)) return 42;
  if (/url$|^link$/i.test(name)) return "https://example.com/42";
  if (/e-?mail/i.test(name)) return "ada@example.com";
  const words = name.replace(/([a-z])([A-Z])/g, "$1 $2").replaceAll(/[_-]+/g, " ").toLowerCase();
  return `Example ${words}`;
}

/** The call that fires a webhook, for a shell; without its token, with a variable in its place. */
export function hookCurl(body: string, token?: string): string {
  const address = serverUrl(`/api/hooks/${token ?? "$WEBHOOK_TOKEN"}`);
  return ["curl -X POST", `"${address}"`, "-H 'Content-Type: application/json'", `-d '${body.replaceAll("'", `'\\''`)}'`].join(" \\\n  ");
}
