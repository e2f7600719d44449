import type { Schemas } from "@/api/types";

import { joinCommand, splitCommand } from "./commandLine";
import type { Faults } from "./faults";
import { linesOf } from "./permissions";
import type { TeamDetails } from "./teamQueries";
import type { Runtime } from "./words";

export interface SettingsDraft {
  name: string;
  description: string;
  model: string;
  runtime: Runtime;
  command: string;
  allowedHosts: string;
  answerSeconds: string;
}

export function settingsOf(team: TeamDetails): SettingsDraft {
  return {
    name: team.name,
    description: team.description,
    model: team.model,
    runtime: team.runtime ?? "local",
    command: joinCommand(team.command ?? []),
    allowedHosts: team.allowed_hosts.join("\n"),
    answerSeconds: String(team.answer_seconds),
  };
}

/** What is different from how the team is, and nothing else. */
export function settingsChange(team: TeamDetails, draft: SettingsDraft): Schemas["TeamUpdate"] {
  const wanted = {
    name: draft.name.trim(),
    description: draft.description.trim(),
    model: draft.model,
    ...(team.provider !== "native" && { runtime: draft.runtime }),
    ...(team.provider === "acp" && { command: splitCommand(draft.command) }),
    allowed_hosts: linesOf(draft.allowedHosts),
    answer_seconds: Number(draft.answerSeconds),
  };
  const changed = Object.entries(wanted).filter(([field, value]) => JSON.stringify(value) !== JSON.stringify(team[field as keyof TeamDetails]));
  return Object.fromEntries(changed);
}

export function settingsFaults(draft: SettingsDraft): Faults {
  const faults: Faults = {};
  if (draft.name.trim() === "") faults.name = "Give the team a name.";
  const seconds = Number(draft.answerSeconds);
  if (!Number.isInteger(seconds) || seconds < 5 || seconds > 86_400) faults.answer_seconds = "A whole number from 5 to 86,400.";
  return faults;
}
