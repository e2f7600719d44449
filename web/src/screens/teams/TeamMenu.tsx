import { useNavigate } from "@tanstack/react-router";
import { Download, Ellipsis, Terminal, Trash2 } from "lucide-react";
import { useState } from "react";

import { $api } from "@/api/client";
import { useMay } from "@/api/session";
import { curl } from "@/lib/curl";
import { plural } from "@/lib/format";
import { Button, IconButton } from "@/ui/Button";
import { copyText } from "@/ui/Copy";
import { Confirm, Dialog } from "@/ui/Dialog";
import { Menu, MenuItem, MenuLine } from "@/ui/Menu";
import { tell, tellProblem } from "@/ui/toasts";

import { isStopping } from "./TeamControls";
import { downloadTeam, forgetTeams, type TeamRead } from "./teamQueries";

/** What else can be done with a team: export it, call it by hand, delete it. */
export function TeamMenu({ team, size = "normal" }: { team: TeamRead; size?: "small" | "normal" }) {
  const may = useMay("teams:write");
  const [deleting, setDeleting] = useState(false);
  const copy = (what: string, method: string, path: string, body?: unknown) =>
    void copyText(curl(method, path, body)).then(() => tell(`${what} copied as curl.`), tellProblem);
  const order = team.deployed ? "restart" : "deploy";
  return (
    <>
      <Menu
        trigger={
          <IconButton label={`More for ${team.name}`} size={size} look="plain">
            <Ellipsis size={16} />
          </IconButton>
        }
      >
        <MenuItem icon={<Download size={15} />} onSelect={() => void downloadTeam(team).catch(tellProblem)}>
          Export as YAML
        </MenuItem>
        <MenuLine />
        <MenuItem icon={<Terminal size={15} />} onSelect={() => copy("Reading the team", "GET", `/api/teams/${team.id}`)}>
          Copy as curl: read
        </MenuItem>
        <MenuItem icon={<Terminal size={15} />} onSelect={() => copy("Asking the team", "POST", `/api/teams/${team.id}/messages`, { text: "Hello" })}>
          Copy as curl: ask
        </MenuItem>
        {may && (
          <>
            <MenuItem icon={<Terminal size={15} />} onSelect={() => copy(order === "deploy" ? "Deploying" : "Restarting", "POST", `/api/teams/${team.id}/${order}`)}>
              Copy as curl: {order}
            </MenuItem>
            <MenuLine />
            <MenuItem icon={<Trash2 size={15} />} danger onSelect={() => setDeleting(true)}>
              Delete…
            </MenuItem>
          </>
        )}
      </Menu>
      {deleting && <DeleteTeam team={team} onClose={() => setDeleting(false)} />}
    </>
  );
}

/** Asks before a team is deleted; one that runs has to be stopped first, and that can be done here. */
export function DeleteTeam({ team, onClose }: { team: TeamRead; onClose: () => void }) {
  const navigate = useNavigate();
  const remove = $api.useMutation("delete", "/api/teams/{team_id}");
  const stop = $api.useMutation("post", "/api/teams/{team_id}/stop", { onSuccess: forgetTeams, onError: tellProblem });
  const init = { params: { path: { team_id: team.id } } };
  if (team.deployed || isStopping(team)) {
    return (
      <Dialog
        title={`Stop ${team.name} first`}
        onClose={onClose}
        footer={
          <>
            <Button onClick={onClose}>Keep as it is</Button>
            <Button look="primary" busy={stop.isPending || isStopping(team)} onClick={() => stop.mutate(init)}>
              {isStopping(team) ? "Stopping…" : "Stop the team"}
            </Button>
          </>
        }
      >
        <p className="text-sm text-soft">Only a stopped team can be deleted. Stopping keeps its conversation and its files.</p>
      </Dialog>
    );
  }
  const confirm = () =>
    remove.mutate(init, {
      onSuccess: () => {
        forgetTeams();
        tell(`${team.name} is deleted.`);
        onClose();
        void navigate({ to: "/teams" });
      },
    });
  return (
    <Confirm title={`Delete ${team.name}?`} action="Delete the team" danger busy={remove.isPending} error={remove.error} onConfirm={confirm} onClose={onClose}>
      <p>
        Goes: the team with its {plural(team.agents, "agent")}, its messages, its log, its schedules and its webhooks. This cannot be taken
        back.
      </p>
      <p>Stays: what it has cost in the usage, its entries in the audit log, and files that were attached to messages.</p>
      <p>To have it again later, export it as YAML before.</p>
    </Confirm>
  );
}
