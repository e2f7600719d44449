import { api, refreshSignIn } from "@/api/client";
import { ApiProblem, unreachable } from "@/api/problem";
import type { Schemas } from "@/api/types";
import { serverUrl } from "@/lib/base";

import type { Message, Send } from "./thread";

export const PAGE = 30;

/** Messages below a position, the oldest first, and whether there are more below them. */
export async function fetchPage(teamId: string, before?: number): Promise<{ messages: Message[]; more: boolean }> {
  const { data } = await api.GET("/api/teams/{team_id}/messages", {
    params: { path: { team_id: teamId }, query: { limit: PAGE, ...(before === undefined ? {} : { before }) } },
  });
  return { messages: data!.items.toReversed(), more: data!.next_cursor != null };
}

export async function fetchMessage(teamId: string, messageId: string): Promise<Message> {
  const { data } = await api.GET("/api/teams/{team_id}/messages/{message_id}", {
    params: { path: { team_id: teamId, message_id: messageId } },
  });
  return data!;
}

export async function postMessage(teamId: string, send: Send): Promise<Message> {
  const { data } = await api.POST("/api/teams/{team_id}/messages", {
    params: { path: { team_id: teamId }, header: { "Idempotency-Key": send.key } },
    body: { text: send.text, attachments: send.attachments },
  });
  return data!;
}

export async function cancelMessage(teamId: string, messageId: string): Promise<Message> {
  const { data } = await api.POST("/api/teams/{team_id}/messages/{message_id}/cancel", {
    params: { path: { team_id: teamId, message_id: messageId } },
  });
  return data!;
}

/** A name that nobody else comes up with, also where crypto.randomUUID is missing (plain http). */
export function uniqueName(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Where files for a team are kept: below a name of their own, so that none replaces another. */
export function folderOf(teamId: string): string {
  return `attachments/${teamId}/`;
}

export function objectUrl(key: string): string {
  return serverUrl(`/api/objects/${key.split("/").map(encodeURIComponent).join("/")}`);
}

interface Upload {
  done: Promise<Schemas["ObjectRead"]>;
  stop: () => void;
}

/** Stores a file as an object; `progress` hears from 0 to 1 how far it is. */
export function uploadFile(key: string, file: File, progress: (share: number) => void): Upload {
  const request = new XMLHttpRequest();
  const done = attempt(request, key, file, progress).catch(async (error: unknown) => {
    if (!(error instanceof ApiProblem) || error.status !== 401 || !(await refreshSignIn())) throw error;
    return attempt(new XMLHttpRequest(), key, file, progress);
  });
  return { done, stop: () => request.abort() };
}

/** XMLHttpRequest, because fetch does not say how much of a body is sent. */
function attempt(request: XMLHttpRequest, key: string, file: File, progress: (share: number) => void): Promise<Schemas["ObjectRead"]> {
  return new Promise((resolve, reject) => {
    request.open("PUT", objectUrl(key));
    request.setRequestHeader("Content-Type", file.type || "application/octet-stream");
    request.upload.onprogress = (event) => event.lengthComputable && progress(event.loaded / event.total);
    request.onload = () => {
      const body = parsed(request.responseText);
      if (request.status < 300) resolve(body as Schemas["ObjectRead"]);
      else reject(refused(request.status, body));
    };
    request.onerror = () => reject(unreachable());
    request.send(file);
  });
}

function parsed(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return {};
  }
}

function refused(status: number, body: Record<string, unknown>): ApiProblem {
  const text = (name: string) => (typeof body[name] === "string" ? body[name] : undefined);
  return new ApiProblem({
    status,
    code: text("code") ?? `http_${status}`,
    title: text("title") ?? "The file was refused",
    detail: text("detail") ?? `The server answered ${status}.`,
    hint: text("hint"),
    requestId: text("request_id"),
    retryAfter: undefined,
  });
}
