import { Ban, Coins, EllipsisVertical, Flag, GitFork, History, MessageSquarePlus, Pause, Play, Terminal, Undo2 } from "lucide-react";

import { $api } from "@/api/client";
import type { Schemas } from "@/api/types";
import { curl } from "@/lib/curl";
import { Button, IconButton } from "@/ui/Button";
import { copyText } from "@/ui/Copy";
import { Menu, MenuItem, MenuLabel, MenuLine } from "@/ui/Menu";
import { tell, tellProblem } from "@/ui/toasts";

import type { Action, Allowed } from "./actions";

interface Props {
  session: Schemas["SessionDetails"];
  allowed: Allowed;
  /** The step that is looked at, if one is. */
  step: number | undefined;
  onOpen: (action: Action) => void;
}

/** What can be done with a session: the next thing as a button, the rest in a menu. */
export function ActionBar({ session, allowed, step, onOpen }: Props) {
  const here = step === undefined ? "" : ` at step ${step}`;
  const params = { params: { path: { session_id: session.id } } };
  const run = $api.useMutation("post", "/api/sessions/{session_id}/run", { onError: tellProblem });
  const pause = $api.useMutation("post", "/api/sessions/{session_id}/pause", { onError: tellProblem });
  const resume = $api.useMutation("post", "/api/sessions/{session_id}/resume", { onError: tellProblem });
  return (
    <>
      {allowed.run && (
        <Button look="primary" busy={run.isPending} icon={<Play size={16} />} onClick={() => run.mutate(params)}>
          Run
        </Button>
      )}
      {allowed.pause && (
        <Button
          busy={pause.isPending}
          icon={<Pause size={16} />}
          onClick={() => pause.mutate(params, { onSuccess: (after) => after.state !== "PAUSED" && tell("It pauses after the step that it is at.") })}
        >
          Pause
        </Button>
      )}
      {allowed.resume && (
        <Button look="primary" busy={resume.isPending} icon={<Play size={16} />} onClick={() => resume.mutate(params)}>
          Resume
        </Button>
      )}
      {allowed.continue && (
        <Button look="primary" icon={<MessageSquarePlus size={16} />} onClick={() => onOpen("continue")}>
          Continue
        </Button>
      )}
      {allowed.cancel && (
        <Button icon={<Ban size={16} />} onClick={() => onOpen("cancel")}>
          Cancel
        </Button>
      )}
      {allowed.fork && (
        <Button icon={<GitFork size={16} />} onClick={() => onOpen("fork")}>
          Fork
        </Button>
      )}
      <CurlMenu session={session} />
      {(allowed.rollback || allowed.checkpoint) && (
        <Menu
          trigger={
            <IconButton label="More actions" look="plain">
              <EllipsisVertical size={16} />
            </IconButton>
          }
        >
          {allowed.rollback && (
            <MenuItem icon={<Undo2 size={16} />} disabled={!!allowed.rollback.blocked} onSelect={() => onOpen("rollback")}>
              <Named name={`Roll back${here}…`} note={allowed.rollback.blocked ?? "This session returns to a step"} />
            </MenuItem>
          )}
          {allowed.restore && (
            <MenuItem icon={<History size={16} />} disabled={!!allowed.restore.blocked} onSelect={() => onOpen("restore")}>
              <Named name="Restore a checkpoint…" note={allowed.restore.blocked ?? "It returns to it and runs again"} />
            </MenuItem>
          )}
          {allowed.checkpoint && (
            <MenuItem icon={<Flag size={16} />} onSelect={() => onOpen("checkpoint")}>
              <Named name="Checkpoint now…" note="Marks this moment to go back to" />
            </MenuItem>
          )}
          {allowed.budget && (
            <MenuItem icon={<Coins size={16} />} onSelect={() => onOpen("budget")}>
              <Named name="Set the budget…" note="A hard cap on its model calls" />
            </MenuItem>
          )}
        </Menu>
      )}
    </>
  );
}

function Named({ name, note }: { name: string; note: string }) {
  return (
    <span className="grid py-1">
      <span>{name}</span>
      <span className="text-xs text-faint">{note}</span>
    </span>
  );
}

function CurlMenu({ session }: { session: Schemas["SessionDetails"] }) {
  const path = `/api/sessions/${session.id}`;
  const calls: [string, string, string, unknown?][] = [
    ["Read the session", "GET", path],
    ["List its steps", "GET", `${path}/steps?limit=200`],
    ["Hear its words live", "GET", `${path}/live`],
    ["Changed files", "GET", `${path}/files`],
    ["Cost", "GET", `${path}/cost`],
    ["Pause", "POST", `${path}/pause`],
    ["Resume", "POST", `${path}/resume`],
    ["Continue", "POST", `${path}/continue`, { prompt: "…" }],
    ["Make the same session again", "POST", "/api/sessions", session.config],
  ];
  return (
    <Menu
      trigger={
        <IconButton label="Copy as curl" look="plain">
          <Terminal size={16} />
        </IconButton>
      }
    >
      <MenuLabel>Copy as curl</MenuLabel>
      <MenuLine />
      {calls.map(([name, method, address, body]) => (
        <MenuItem key={name} onSelect={() => void copyText(curl(method, address, body)).then(() => tell("The command is copied."))}>
          {name}
        </MenuItem>
      ))}
    </Menu>
  );
}
