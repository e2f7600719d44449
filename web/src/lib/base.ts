/** Where the dashboard lives, without a slash at the end: "" or e.g. "/agentos". */
export const basePath = new URL(document.baseURI).pathname.replace(/\/$/, "");

/** The address of a path of the server, e.g. `/api/events`, wherever it is mounted. */
export function serverUrl(path: string): string {
  return `${location.origin}${basePath}${path}`;
}
