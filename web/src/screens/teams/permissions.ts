import type { Schemas } from "@/api/types";

export type Permissions = Schemas["Permissions"];

/** Permissions as the editor holds them: a switch for each list that restricts, one item per line. */
export interface PermissionsDraft {
  onlyTools: boolean;
  tools: string;
  onlyCommands: boolean;
  allowedCommands: string;
  deniedCommands: string;
  onlyFiles: boolean;
  files: string;
  ask: string;
}

/** The items of a text with one on each line; blanks around them and empty lines do not count. */
export function linesOf(text: string): string[] {
  const lines = text.split(/\r?\n/).map((line) => line.trim());
  return [...new Set(lines.filter((line) => line !== ""))];
}

const textOf = (lines: string[] | null | undefined): string => (lines ?? []).join("\n");

export function draftOfPermissions(permissions: Permissions): PermissionsDraft {
  return {
    onlyTools: Array.isArray(permissions.tools),
    tools: textOf(permissions.tools),
    onlyCommands: Array.isArray(permissions.allowed_commands),
    allowedCommands: textOf(permissions.allowed_commands),
    deniedCommands: textOf(permissions.denied_commands),
    onlyFiles: Array.isArray(permissions.files),
    files: textOf(permissions.files),
    ask: textOf(permissions.ask),
  };
}

/** What the API takes. A list that does not restrict is null; an empty one that does, forbids all. */
export function permissionsOf(draft: PermissionsDraft): Permissions {
  return {
    tools: draft.onlyTools ? linesOf(draft.tools) : null,
    denied_commands: linesOf(draft.deniedCommands),
    allowed_commands: draft.onlyCommands ? linesOf(draft.allowedCommands) : null,
    files: draft.onlyFiles ? linesOf(draft.files) : null,
    ask: linesOf(draft.ask),
  };
}

/** What an agent may do, in a few words for people. */
export function summaryOf(permissions: Permissions): string[] {
  const count = (list: string[], one: string) => `${list.length} ${list.length === 1 ? one : `${one}s`}`;
  const parts: string[] = [];
  if (permissions.tools) parts.push(`only ${count(permissions.tools, "tool")}`);
  if (permissions.denied_commands?.length) parts.push(`${count(permissions.denied_commands, "command")} denied`);
  if (permissions.allowed_commands) parts.push(`only ${count(permissions.allowed_commands, "command")}`);
  if (permissions.files) parts.push(`files in ${count(permissions.files, "place")}`);
  if (permissions.ask?.includes("*")) parts.push("asks before every tool");
  else if (permissions.ask?.length) parts.push(`asks before ${count(permissions.ask, "tool")}`);
  return parts;
}
