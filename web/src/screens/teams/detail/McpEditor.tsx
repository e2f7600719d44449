import { Link } from "@tanstack/react-router";
import { Plus, Trash2 } from "lucide-react";
import { useState } from "react";

import { $api } from "@/api/client";
import { useMay } from "@/api/session";
import { Button, IconButton } from "@/ui/Button";
import { CopyCurl } from "@/ui/Copy";
import { Dialog } from "@/ui/Dialog";
import { Checkbox, SelectField, TextArea, TextField } from "@/ui/Field";
import { Problem } from "@/ui/Problem";
import { Choice } from "@/ui/Tabs";

import { faultAt, type Faults, faultsBelow, faultsOf } from "../faults";
import { draftOfServer, type McpDraft, type McpServer, serverFaults, serverOf, serversOf, type ValueDraft } from "../mcp";
import { type TeamDetails, useUpdateTeam } from "../teamQueries";

const EMPTY: McpServer = { name: "", timeout_seconds: 60 };

/** One MCP server: where it is or how it is started, what it is given, which tools count. */
export function McpEditor({ team, server, onClose }: { team: TeamDetails; server: McpServer | undefined; onClose: () => void }) {
  const [draft, setDraft] = useState(() => draftOfServer(server ?? EMPTY));
  const [wrong, setWrong] = useState<Faults>({});
  const update = useUpdateTeam();
  const change = (part: Partial<McpDraft>) => setDraft((old) => ({ ...old, ...part }));
  const servers = serversOf(team);
  const place = server ? servers.findIndex((each) => each.name === server.name) : servers.length;
  const body = { mcp_servers: [...servers.slice(0, place), serverOf(draft), ...servers.slice(place + 1)] };
  const told = update.error ? faultsBelow(faultsOf(update.error), `mcp_servers.${place}`) : {};
  const faults = { ...told, ...wrong };
  const save = () => {
    const found = serverFaults(draft);
    setWrong(found);
    if (Object.keys(found).length === 0) update.mutate({ params: { path: { team_id: team.id } }, body }, { onSuccess: onClose });
  };
  const remote = draft.kind === "url";
  return (
    <Dialog
      wide
      title={server ? `MCP server ${server.name}` : "Add an MCP server"}
      onClose={onClose}
      footer={
        <>
          <span className="mr-auto self-center">
            <CopyCurl method="PATCH" path={`/api/teams/${team.id}`} body={body} />
          </span>
          <Button onClick={onClose}>Cancel</Button>
          <Button look="primary" busy={update.isPending} onClick={save}>
            Save
          </Button>
        </>
      }
    >
      <div className="grid gap-4 sm:grid-cols-2">
        <TextField label="Name" className="[&_input]:font-mono" placeholder="github" maxLength={24} spellCheck={false} hint="Part of its tools' names." value={draft.name} error={faults.name} onChange={(event) => change({ name: event.target.value })} />
        <TextField label="Seconds for a call" type="number" min={1} max={3600} value={draft.timeoutSeconds} error={faults.timeout_seconds} onChange={(event) => change({ timeoutSeconds: event.target.value })} />
      </div>
      <div>
        <Choice
          label="How it is reached"
          value={draft.kind}
          onChange={(kind) => change({ kind })}
          options={[
            { value: "url", name: "Remote, over HTTP" },
            { value: "command", name: "A command (stdio)" },
          ]}
        />
      </div>
      {remote ? (
        <TextField label="Address" type="url" placeholder="https://mcp.example.com/mcp" hint="Where the server answers MCP over streamable HTTP." value={draft.url} error={faults.url} onChange={(event) => change({ url: event.target.value })} />
      ) : (
        <TextField label="Command" className="[&_input]:font-mono" placeholder="python3 server.py" hint="Runs in the team's sandbox and speaks MCP on its standard streams." value={draft.command} error={faults.command} onChange={(event) => change({ command: event.target.value })} />
      )}
      {remote ? (
        <Values title="Headers" one="header" rows={draft.headers} error={faultAt(faults, "headers")} onChange={(headers) => change({ headers })} />
      ) : (
        <Values title="Variables" one="variable" rows={draft.env} error={faultAt(faults, "env")} onChange={(env) => change({ env })} />
      )}
      <div className="grid gap-2">
        <Checkbox label="Only certain tools of it" checked={draft.onlyTools} onChange={(event) => change({ onlyTools: event.target.checked })} />
        {draft.onlyTools && <TextArea className="ml-7" label="Tools" mono rows={3} hint="By its own names for them, one per line." value={draft.tools} error={faultAt(faults, "tools")} onChange={(event) => change({ tools: event.target.value })} />}
      </div>
      {update.error && Object.keys(told).length === 0 ? <Problem error={update.error} /> : null}
    </Dialog>
  );
}

interface ValuesProps {
  title: string;
  one: string;
  rows: ValueDraft[];
  error: string | undefined;
  onChange: (rows: ValueDraft[]) => void;
}

function Values({ title, one, rows, error, onChange }: ValuesProps) {
  const mayVault = useMay("vault:read");
  const secrets = $api.useQuery("get", "/api/vault", { params: { query: { limit: 200 } } }, { enabled: mayVault }).data?.items ?? [];
  const set = (index: number, part: Partial<ValueDraft>) => onChange(rows.map((row, at) => (at === index ? { ...row, ...part } : row)));
  return (
    <fieldset className="grid gap-2">
      <legend className="mb-1 text-sm font-medium">{title}</legend>
      <p className="text-xs text-soft">
        Keys and tokens belong into the{" "}
        <Link to="/settings/$section" params={{ section: "vault" }} className="text-accent-ink underline">
          vault
        </Link>
        : choose “secret”, and only its name is kept here.
      </p>
      {rows.map((row, index) => (
        <div key={index} className="grid items-end gap-2 rounded-md border border-line p-2 sm:grid-cols-[2fr_1fr_2fr_auto]">
          <TextField label={`Name of the ${one}`} className="[&_input]:font-mono" value={row.name} onChange={(event) => set(index, { name: event.target.value })} />
          <SelectField label="From" value={row.from} onChange={(event) => set(index, { from: event.target.value as ValueDraft["from"], value: "" })}>
            <option value="secret">secret</option>
            <option value="text">text</option>
          </SelectField>
          {row.from === "secret" && mayVault ? (
            <SelectField label="Secret" value={row.value} onChange={(event) => set(index, { value: event.target.value })}>
              <option value="">{secrets.length === 0 ? "The vault is empty" : "Choose…"}</option>
              {row.value !== "" && !secrets.some((secret) => secret.name === row.value) && <option value={row.value}>{row.value} (missing)</option>}
              {secrets.map((secret) => (
                <option key={secret.name} value={secret.name}>
                  {secret.name}
                </option>
              ))}
            </SelectField>
          ) : (
            <TextField label={row.from === "secret" ? "Name of the secret" : "Value"} value={row.value} onChange={(event) => set(index, { value: event.target.value })} />
          )}
          <IconButton label={`Remove the ${one} ${row.name}`} onClick={() => onChange(rows.filter((_, at) => at !== index))}>
            <Trash2 size={15} />
          </IconButton>
        </div>
      ))}
      {error && (
        <p role="alert" className="text-xs text-bad">
          {error}
        </p>
      )}
      <Button size="small" className="justify-self-start" icon={<Plus size={14} aria-hidden />} onClick={() => onChange([...rows, { name: "", from: "secret", value: "" }])}>
        Add a {one}
      </Button>
    </fieldset>
  );
}
