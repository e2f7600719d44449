import { Plug } from "lucide-react";
import { useState } from "react";

import { useMay } from "@/api/session";
import { Badge, type Tone } from "@/ui/Badge";
import { Button } from "@/ui/Button";
import { Card } from "@/ui/Card";
import { Confirm } from "@/ui/Dialog";
import { Empty } from "@/ui/Empty";

import { joinCommand } from "../commandLine";
import { type McpServer, serversOf, serverStatus } from "../mcp";
import { type TeamDetails, useUpdateTeam } from "../teamQueries";
import { McpEditor } from "./McpEditor";

/** The MCP servers whose tools the team may use, and how they are. */
export function McpTab({ team }: { team: TeamDetails }) {
  const may = useMay("teams:write");
  const [editing, setEditing] = useState<McpServer | "new">();
  const [removing, setRemoving] = useState<McpServer>();
  const update = useUpdateTeam();
  const servers = serversOf(team);
  const add = may && (
    <Button look={servers.length === 0 ? "primary" : "plain"} className="justify-self-start" onClick={() => setEditing("new")}>
      Add an MCP server
    </Button>
  );
  const remove = (server: McpServer) =>
    update.mutate(
      { params: { path: { team_id: team.id } }, body: { mcp_servers: servers.filter((each) => each.name !== server.name) } },
      { onSuccess: () => setRemoving(undefined) },
    );
  return (
    <div className="grid gap-4">
      {servers.length === 0 ? (
        <Empty icon={Plug} title="No MCP servers" action={add}>
          An MCP server brings tools of its own: a remote one by its address, or one that is started by a command in the team's sandbox.
        </Empty>
      ) : (
        <>
          <ul className="grid gap-3">
            {servers.map((server) => (
              <li key={server.name}>
                <ServerCard team={team} server={server} onEdit={may ? () => setEditing(server) : undefined} onRemove={() => setRemoving(server)} />
              </li>
            ))}
          </ul>
          {add}
        </>
      )}
      {editing && <McpEditor team={team} server={editing === "new" ? undefined : editing} onClose={() => setEditing(undefined)} />}
      {removing && (
        <Confirm title={`Remove ${removing.name}?`} action="Remove the server" danger busy={update.isPending} error={update.error} onConfirm={() => remove(removing)} onClose={() => setRemoving(undefined)}>
          <p>The team cannot use its tools any more. The server itself and the secrets in the vault stay.</p>
        </Confirm>
      )}
    </div>
  );
}

function ServerCard({ team, server, onEdit, onRemove }: { team: TeamDetails; server: McpServer; onEdit: (() => void) | undefined; onRemove: () => void }) {
  const known = serverStatus(team, server.name);
  const values = Object.entries({ ...server.headers, ...server.env });
  return (
    <Card className="flex flex-wrap items-start justify-between gap-3 p-4">
      <div className="grid min-w-0 flex-1 gap-1 text-sm">
        <p className="flex flex-wrap items-center gap-2">
          <span className="font-semibold">{server.name}</span>
          <ServerBadge team={team} status={known?.status} />
        </p>
        {known?.error && <p className="text-xs break-words text-bad">{known.error}</p>}
        <p className="font-mono text-xs break-all text-soft">{server.url ?? joinCommand(server.command ?? [])}</p>
        <p className="text-xs text-soft">
          {server.url ? "Remote" : "Runs in the sandbox"} · {server.tools ? `only ${server.tools.join(", ") || "no tools"}` : "all its tools"} · {server.timeout_seconds} s for a call
        </p>
        {values.length > 0 && (
          <p className="text-xs break-words text-soft">
            {server.url ? "Headers" : "Variables"}: {values.map(([name, value]) => (typeof value === "string" ? name : `${name} (secret ${value.secret})`)).join(", ")}
          </p>
        )}
      </div>
      {onEdit && (
        <div className="flex gap-2">
          <Button size="small" onClick={onEdit}>
            Edit<span className="sr-only"> {server.name}</span>
          </Button>
          <Button size="small" look="quiet" onClick={onRemove}>
            Remove…<span className="sr-only"> {server.name}</span>
          </Button>
        </div>
      )}
    </Card>
  );
}

const TONES: Record<string, Tone> = { connected: "good", ready: "good", failed: "bad", error: "bad", pending: "info", connecting: "info" };

function ServerBadge({ team, status }: { team: TeamDetails; status: string | undefined }) {
  if (status) {
    return (
      <Badge dot tone={TONES[status] ?? "warn"}>
        {status}
      </Badge>
    );
  }
  return <span className="text-xs text-soft">{team.provider === "native" ? "connects when a message is answered" : team.deployed ? "nothing heard of it yet" : "not connected: the team is stopped"}</span>;
}
