import { serverUrl } from "./base";

/** The call as a line for a shell; the key stays a variable, so that it can be shown to anyone. */
export function curl(method: string, path: string, body?: unknown): string {
  const parts = ["curl"];
  if (method !== "GET") parts.push(`-X ${method}`);
  parts.push(quote(serverUrl(path)));
  parts.push('-H "Authorization: Bearer $AGENTOS_API_KEY"');
  if (body !== undefined) {
    parts.push("-H 'Content-Type: application/json'", `-d ${quote(JSON.stringify(body))}`);
  }
  return parts.join(" \\\n  ");
}

function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
