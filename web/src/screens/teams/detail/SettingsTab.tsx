import { useState } from "react";

import { useMay } from "@/api/session";
import type { Schemas } from "@/api/types";
import { Button } from "@/ui/Button";
import { Section } from "@/ui/Card";
import { CopyCurl } from "@/ui/Copy";
import { SelectField, TextArea, TextField } from "@/ui/Field";
import { Problem } from "@/ui/Problem";

import { faultAt, type Faults, faultsOf } from "../faults";
import { ModelSelect } from "../ModelSelect";
import { type SettingsDraft, settingsChange, settingsFaults, settingsOf } from "../settings";
import { DeleteTeam } from "../TeamMenu";
import { type TeamDetails, useUpdateTeam } from "../teamQueries";
import { PROVIDERS, RUNTIMES } from "../words";
import { SaveBar, UnsavedGuard, useEdited } from "./edited";

/** What a team is called, by what it works, what it may reach; and how to be rid of it. */
export function SettingsTab({ team }: { team: TeamDetails }) {
  const may = useMay("teams:write");
  const edited = useEdited<SettingsDraft>(settingsOf(team));
  const update = useUpdateTeam();
  const [wrong, setWrong] = useState<Faults>({});
  const [deleting, setDeleting] = useState(false);
  const body: Schemas["TeamUpdate"] = settingsChange(team, edited.value);
  const told = update.error ? faultsOf(update.error) : {};
  const faults = { ...told, ...wrong };
  const save = () => {
    const found = settingsFaults(edited.value);
    setWrong(found);
    if (Object.keys(found).length === 0) update.mutate({ params: { path: { team_id: team.id } }, body }, { onSuccess: edited.saved });
  };
  return (
    <div className="grid max-w-3xl gap-5">
      <Section title="Settings" actions={<CopyCurl method="PATCH" path={`/api/teams/${team.id}`} body={body} />}>
        <div className="grid gap-5">
          <Fields team={team} draft={edited.value} change={edited.change} faults={faults} disabled={!may} />
          {update.error && Object.keys(told).length === 0 ? <Problem error={update.error} /> : null}
          {may && <SaveBar edited={edited} busy={update.isPending} deployed={team.deployed} onSave={save} />}
        </div>
      </Section>
      {may && (
        <Section title="Danger zone">
          <div className="flex flex-wrap items-center justify-between gap-4">
            <div className="grid max-w-lg gap-1 text-sm text-soft">
              <p>Deleting removes the team with its messages, its log, its schedules and its webhooks.</p>
              <p>What it has cost, the audit log and attached files stay.</p>
            </div>
            <Button look="danger" onClick={() => setDeleting(true)}>
              Delete the team…
            </Button>
          </div>
        </Section>
      )}
      {deleting && <DeleteTeam team={team} onClose={() => setDeleting(false)} />}
      <UnsavedGuard unsaved={edited.unsaved} what="the settings" />
    </div>
  );
}

interface FieldsProps {
  team: TeamDetails;
  draft: SettingsDraft;
  change: (part: Partial<SettingsDraft>) => void;
  faults: Faults;
  disabled: boolean;
}

function Fields({ team, draft, change, faults, disabled }: FieldsProps) {
  const standing = team.deployed || team.status !== "stopped";
  return (
    <div className="grid gap-4 sm:grid-cols-2">
      <TextField label="Name" maxLength={100} disabled={disabled} value={draft.name} error={faults.name} onChange={(event) => change({ name: event.target.value })} />
      <ModelSelect value={draft.model} disabled={disabled} standard={{ value: "auto", name: "Auto: the first of your models" }} error={faults.model} onChange={(model) => change({ model })} />
      <TextArea label="Description" className="sm:col-span-2" rows={2} maxLength={2000} disabled={disabled} value={draft.description} error={faults.description} onChange={(event) => change({ description: event.target.value })} />
      <TextField label="Provider" disabled value={PROVIDERS[team.provider].name} hint="Cannot be changed: export the team and make another." />
      {team.provider !== "native" && (
        <SelectField label="Runtime" disabled={disabled || standing} hint={standing ? "Only while the team is stopped." : undefined} value={draft.runtime} error={faults.runtime} onChange={(event) => change({ runtime: event.target.value as SettingsDraft["runtime"] })}>
          {Object.entries(RUNTIMES).map(([runtime, words]) => (
            <option key={runtime} value={runtime}>
              {words}
            </option>
          ))}
        </SelectField>
      )}
      {team.provider === "acp" && (
        <TextField label="ACP command" className="sm:col-span-2 [&_input]:font-mono" disabled={disabled} value={draft.command} error={faultAt(faults, "command")} onChange={(event) => change({ command: event.target.value })} />
      )}
      <TextField label="Seconds for an answer" type="number" min={5} max={86400} disabled={disabled} hint="The longest an answer may take, from 5 to 86,400." value={draft.answerSeconds} error={faults.answer_seconds} onChange={(event) => change({ answerSeconds: event.target.value })} />
      <TextArea label="Allowed hosts" className="sm:col-span-2" mono rows={4} disabled={disabled} placeholder={"api.example.com\n*.example.org"} hint="Hosts that its tools may reach, one per line. Without any there is no network." value={draft.allowedHosts} error={faultAt(faults, "allowed_hosts")} onChange={(event) => change({ allowedHosts: event.target.value })} />
    </div>
  );
}
