import type { Schemas } from "@/api/types";

type Auth = Schemas["Auth"];

/** A post-action as its form holds it. */
export interface PostActionForm {
  name: string;
  after: Schemas["PostActionRead"]["after"];
  method: Schemas["PostActionRead"]["method"];
  url: string;
  auth: Auth["kind"];
  secret: string;
  user: string;
  header: string;
  headers: string;
  body: string;
  attempts: string;
}

/** What the URL and the body may name. */
export const RUN_VARIABLES = ["run.state", "run.result", "run.error", "run.id", "run.due_at", "source.name"];

export const AFTER: Record<PostActionForm["after"], string> = {
  any: "After every run",
  success: "After runs that succeed",
  failure: "After runs that fail",
};

export function newPostAction(): PostActionForm {
  return { name: "", after: "any", method: "POST", url: "", auth: "none", secret: "", user: "", header: "", headers: "", body: "", attempts: "5" };
}

export function postActionOf(action: Schemas["PostActionRead"]): PostActionForm {
  const auth = action.auth as Partial<Auth>;
  return {
    name: action.name,
    after: action.after,
    method: action.method,
    url: action.url,
    auth: auth.kind ?? "none",
    secret: auth.secret ?? "",
    user: auth.user ?? "",
    header: auth.header ?? "",
    headers: Object.entries(action.headers)
      .map(([name, value]) => `${name}: ${value}`)
      .join("\n"),
    body: action.body ?? "",
    attempts: String(action.max_attempts),
  };
}

/** "Name: value" lines; undefined if one of them is none. */
export function readHeaders(text: string): Record<string, string> | undefined {
  const headers: Record<string, string> = {};
  for (const line of text.split("\n").filter((each) => each.trim())) {
    const colon = line.indexOf(":");
    if (colon < 1) return undefined;
    headers[line.slice(0, colon).trim()] = line.slice(colon + 1).trim();
  }
  return headers;
}

export function postActionBody(form: PostActionForm) {
  return {
    name: form.name.trim(),
    after: form.after,
    method: form.method,
    url: form.url.trim(),
    headers: readHeaders(form.headers) ?? {},
    auth: authOf(form),
    max_attempts: Number(form.attempts),
    body: form.body.trim() ? form.body : null,
  };
}

function authOf(form: PostActionForm): Auth {
  if (form.auth === "none") return { kind: "none" };
  return {
    kind: form.auth,
    secret: form.secret,
    ...(form.auth === "basic" ? { user: form.user } : {}),
    ...(form.auth === "header" ? { header: form.header } : {}),
  };
}
