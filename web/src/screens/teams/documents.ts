import type { Schemas } from "@/api/types";

import type { TeamDetails } from "./teamQueries";

export type Skill = Schemas["Skill"];
export type AgentPut = Schemas["AgentPut"];

/** `stem`, or `stem-2` and so on if that is taken. */
export function newName(stem: string, taken: string[]): string {
  let name = stem;
  for (let number = 2; taken.includes(name); number += 1) name = `${stem}-${number}`;
  return name;
}

export function skillsOf(team: TeamDetails): Skill[] {
  return team.skills as unknown as Skill[];
}

/** An agent as it is written, from one as it is read. */
export function agentPut({ leader: _, ...agent }: Schemas["AgentRead"]): AgentPut {
  return agent as AgentPut;
}

/** The change that puts `skill` in the place of the one called `before`; null removes it, no `before` adds.
 *  Agents that knew it know it under its new name, or no more. */
export function skillChange(team: TeamDetails, before: string | undefined, skill: Skill | null): Schemas["TeamUpdate"] {
  const skills = skillsOf(team);
  const next = before === undefined ? [...skills, ...(skill ? [skill] : [])] : skills.flatMap((each) => (each.name === before ? (skill ?? []) : each));
  if (before === undefined || skill?.name === before) return { skills: next };
  const follow = (agent: Schemas["AgentRead"]): AgentPut => ({
    ...agentPut(agent),
    skills: agent.skills.flatMap((name) => (name === before ? (skill?.name ?? []) : name)),
  });
  const knows = (agent: Schemas["AgentRead"]) => agent.skills.includes(before);
  return {
    skills: next,
    ...(knows(team.leader) && { leader: follow(team.leader) }),
    ...(team.workers.some(knows) && { workers: team.workers.map(follow) }),
  };
}
