import type { Schemas } from "@/api/types";

export type Provider = Schemas["TeamRead"]["provider"];
export type Runtime = NonNullable<Schemas["TeamRead"]["runtime"]>;
export type TeamStatus = Schemas["TeamRead"]["status"];

interface ProviderWords {
  name: string;
  /** What the agents are. */
  means: string;
  /** What has to be there before it can be deployed. */
  needs: string;
  /** The command that brings it. */
  install?: string;
}

export const PROVIDERS: Record<Provider, ProviderWords> = {
  native: {
    name: "Native",
    means: "AgentOS runs the agents itself; workers are sub-agents with a share of the budget.",
    needs: "Nothing. It starts at once, and nothing runs while nobody asks.",
  },
  "claude-code": {
    name: "Claude Code",
    means: "Claude Code leads, and the workers are its sub-agents.",
    needs: "The program on the worker's machine:",
    install: "agentos agents install claude-code",
  },
  opencode: {
    name: "OpenCode",
    means: "OpenCode leads, and the workers are its sub-agents.",
    needs: "The program on the worker's machine:",
    install: "agentos agents install opencode ripgrep",
  },
  acp: {
    name: "ACP",
    means: "Any agent that speaks the Agent Client Protocol; workers are roles the leader takes on.",
    needs: "A command that starts the agent, installed on the worker's machine.",
  },
};

export const PROVIDER_NAMES = Object.keys(PROVIDERS) as Provider[];

export const RUNTIMES: Record<Runtime, string> = {
  local: "Local: a sandbox on the worker's machine",
  docker: "Docker: a container on the worker's machine",
};

/** Where a team runs, in a word or two. */
export function placeOf(team: Pick<Schemas["TeamRead"], "provider" | "runtime">): string {
  const provider = PROVIDERS[team.provider].name;
  return team.runtime ? `${provider} · ${team.runtime}` : provider;
}

/** What a status means, where the server gives no reason of its own. */
export const STATUS_MEANS: Record<TeamStatus, string> = {
  stopped: "Nothing runs. Conversation, files and waiting messages are kept.",
  starting: "Its agent is being started.",
  running: "It answers messages.",
  degraded: "Its agent has said nothing for a while.",
  crash_loop: "It crashed three times in five minutes, and is started again.",
  repairing: "It is started again, with a fresh home and the same files.",
  error: "It could not be started, and is left alone until somebody tries again.",
};

/** Whether it is not well, and says so on its page. */
export function isTroubled(team: Pick<Schemas["TeamRead"], "status">): boolean {
  return ["degraded", "crash_loop", "repairing", "error"].includes(team.status);
}
