import type { TenantEvent } from "@/live/socket";

type Data = Record<string, unknown>;
type Said = string | ((data: Data) => string);

/** What happened, by type of event, in the words of somebody who tells it. */
const SENTENCES: Record<string, Said> = {
  "session.created": "A session was created",
  "session.started": "A session began to run",
  "session.paused": "A session was paused",
  "session.resumed": "A session goes on",
  "session.completed": "A session is complete",
  "session.failed": "A session failed",
  "session.forked": "A session was forked",
  "session.rolled_back": "A session was rolled back",
  "session.step_uncertain": "Nobody knows whether a step was done",
  "session.gate_failed": (data) => `The gate ${name(data.gate)} failed`,
  "approval.requested": (data) => `Somebody is asked: ${name(data.subject)}`,
  "approval.decided": (data) => `A question was decided: ${name(data.state)}`,
  "chain.created": (data) => `The chain ${name(data.name)} was created`,
  "chain.completed": "A chain is complete",
  "chain.failed": "A chain failed",
  "chain.cancelled": "A chain was cancelled",
  "team.created": (data) => `The team ${name(data.name)} was created`,
  "team.deleted": (data) => `The team ${name(data.name)} was deleted`,
  "team.updated": "A team was changed",
  "team.status_changed": (data) => `A team is ${name(data.status).replace("_", " ")} now`,
  "team.alerted": "A team needs attention",
  "message.queued": "A message was sent to a team",
  "message.finished": (data) => (data.state === "answered" ? "A team answered" : `A message ended: ${name(data.state)}`),
  "schedule.changed": "A schedule was changed",
  "schedule.deleted": "A schedule was deleted",
  "webhook.changed": "A webhook was changed",
  "webhook.deleted": "A webhook was deleted",
  "run.finished": (data) => `A run ended: ${name(data.state)}`,
  "budget.set": "A budget was set",
  "budget.warned": "A budget is nearly used up",
  "budget.exhausted": "A budget is used up",
  "budget.resumed": "There is budget again",
  "model.provider_connected": (data) => `The provider ${name(data.name)} was connected`,
  "model.provider_removed": "A provider was removed",
  "member.invited": (data) => `${name(data.email)} was invited`,
  "member.joined": "Somebody joined",
  "member.removed": "A member was removed",
  "member.role_changed": "A member has another role",
  "api_key.created": (data) => `The API key ${name(data.name)} was created`,
  "api_key.revoked": "An API key was revoked",
  "secret.stored": (data) => `The secret ${name(data.name)} was stored`,
  "secret.deleted": (data) => `The secret ${name(data.name)} was deleted`,
  "tenant.created": "This tenant was created",
  "tenant.updated": "This tenant was changed",
};

function name(value: unknown): string {
  return typeof value === "string" && value !== "" ? value : "something";
}

export interface Told {
  text: string;
  link: { to: string; params: Record<string, string> } | undefined;
}

/** An event as a sentence with where to look; nothing for those that only mark progress. */
export function tellEvent(event: Pick<TenantEvent, "type" | "data">): Told | undefined {
  const said = SENTENCES[event.type];
  if (said === undefined) return undefined;
  return { text: typeof said === "string" ? said : said(event.data), link: linkOf(event.data) };
}

const LINKS: [string, string, string][] = [
  ["session_id", "/sessions/$sessionId", "sessionId"],
  ["chain_id", "/chains/$chainId", "chainId"],
  ["team_id", "/teams/$teamId", "teamId"],
  ["schedule_id", "/schedules/$scheduleId", "scheduleId"],
  ["webhook_id", "/webhooks/$webhookId", "webhookId"],
];

function linkOf(data: Data): Told["link"] {
  for (const [field, to, param] of LINKS) {
    const id = data[field];
    if (typeof id === "string") return { to, params: { [param]: id } };
  }
  return undefined;
}
