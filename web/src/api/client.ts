import createFetchClient from "openapi-fetch";
import createQueryClient from "openapi-react-query";

import { basePath, serverUrl } from "@/lib/base";

import { readProblem, unreachable } from "./problem";
import type { paths } from "./schema";

const signedOut = new Set<() => void>();

/** Calls `listener` when the sign-in has ended; answers how to stop that. */
export function onSignedOut(listener: () => void): () => void {
  signedOut.add(listener);
  return () => signedOut.delete(listener);
}

let refreshing: Promise<boolean> | undefined;

/** A new access cookie for this browser; false if the sign-in is over. */
export function refreshSignIn(tenant?: string): Promise<boolean> {
  refreshing ??= serialised(() => askForRefresh(tenant)).finally(() => {
    refreshing = undefined;
  });
  return refreshing;
}

async function askForRefresh(tenant: string | undefined): Promise<boolean> {
  const response = await fetch(serverUrl("/api/auth/refresh?cookie=true"), {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(tenant === undefined ? {} : { tenant }),
  });
  return response.ok;
}

/** One tab at a time: a refresh token works once. */
async function serialised(work: () => Promise<boolean>): Promise<boolean> {
  return "locks" in navigator ? await navigator.locks.request("agentos.refresh", work) : await work();
}

async function send(request: Request): Promise<Response> {
  try {
    return await fetch(request);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw unreachable();
  }
}

/** fetch that renews the sign-in when it has run out, and throws problems. */
export async function fetchApi(request: Request): Promise<Response> {
  const again = request.clone();
  let response = await send(request);
  const ownBusiness = new URL(request.url).pathname.startsWith(`${basePath}/api/auth/`);
  const isMe = request.url.endsWith("/api/auth/me");
  if (response.status === 401 && (!ownBusiness || isMe)) {
    if (await refreshSignIn()) response = await send(again);
    else if (!isMe) signedOut.forEach((listener) => listener());
  }
  if (!response.ok) throw await readProblem(response);
  return response;
}

/** Calls to the API, typed by its description. Problems are thrown as `ApiProblem`. */
export const api = createFetchClient<paths>({ baseUrl: serverUrl(""), fetch: fetchApi });

const queries = createQueryClient(api);

/** Set apart: what is kept of a list in pages has another shape than what is kept of one page. */
export function inPages<T extends object>(init: T): T & { pages: true } {
  return { ...init, pages: true };
}

const useInfiniteQuery: typeof queries.useInfiniteQuery = (method, path, init, options, client) =>
  queries.useInfiniteQuery(method, path, inPages(init), options, client);

/** The same as hooks of TanStack Query. */
export const $api = { ...queries, useInfiniteQuery };
