import { $api } from "@/api/client";
import { readProblem, unreachable } from "@/api/problem";
import { queryClient } from "@/api/queries";
import type { Schemas } from "@/api/types";
import { serverUrl } from "@/lib/base";
import { tellProblem } from "@/ui/toasts";

export type Webhook = Schemas["WebhookRead"];

export const oneWebhook = (id: string) => ({ params: { path: { webhook_id: id } } });

/** Shows a webhook as the server has just answered it. */
export function keepWebhook(webhook: Webhook): void {
  queryClient.setQueryData($api.queryOptions("get", "/api/webhooks/{webhook_id}", oneWebhook(webhook.id)).queryKey, webhook);
  forgetWebhooks();
}

function forgetWebhooks(): void {
  void queryClient.invalidateQueries({ queryKey: ["get", "/api/webhooks"] });
}

/** The lists are not shown again before they are asked for: one of them is gone. */
export function dropWebhooks(): void {
  queryClient.removeQueries({ queryKey: ["get", "/api/webhooks"] });
}

/** Turns a webhook on and off. */
export function useWebhookSwitch(webhook: Webhook) {
  const update = $api.useMutation("patch", "/api/webhooks/{webhook_id}", { onSuccess: keepWebhook, onError: tellProblem });
  return { busy: update.isPending, set: (enabled: boolean) => update.mutate({ ...oneWebhook(webhook.id), body: { enabled } }) };
}

/** Sends to a webhook as another system would: without our sign-in, only with the token. */
export async function fire({ token, body }: { token: string; body: string }): Promise<Schemas["Fired"]> {
  const response = await fetch(serverUrl(`/api/hooks/${token}?wait=30`), {
    method: "POST",
    credentials: "omit",
    headers: { "Content-Type": "application/json" },
    body,
  }).catch(() => {
    throw unreachable();
  });
  if (!response.ok) throw await readProblem(response);
  return (await response.json()) as Schemas["Fired"];
}
