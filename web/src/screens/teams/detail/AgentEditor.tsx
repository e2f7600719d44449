import { Link } from "@tanstack/react-router";
import { useState } from "react";

import { $api } from "@/api/client";
import { problemOf } from "@/api/problem";
import type { Schemas } from "@/api/types";
import { Button } from "@/ui/Button";
import { Section } from "@/ui/Card";
import { CopyCurl } from "@/ui/Copy";
import { Confirm } from "@/ui/Dialog";
import { Checkbox, TextField } from "@/ui/Field";
import { Problem } from "@/ui/Problem";

import { type AgentPut, skillsOf } from "../documents";
import { faultAt, type Faults, faultsOf, HANDLE, HANDLE_RULE } from "../faults";
import { ModelSelect } from "../ModelSelect";
import { draftOfPermissions, type PermissionsDraft, permissionsOf } from "../permissions";
import { keepTeam, type TeamDetails } from "../teamQueries";
import { SaveBar, UnsavedGuard, useEdited } from "./edited";
import { MarkdownEditor } from "./MarkdownEditor";
import { PermissionFields } from "./PermissionFields";

interface AgentForm {
  name: string;
  role: string;
  model: string;
  instructions: string;
  skills: string[];
  permissions: PermissionsDraft;
}

interface Props {
  team: TeamDetails;
  agent: Schemas["AgentRead"];
  isNew: boolean;
  readOnly: boolean;
  onSaved: (name: string) => void;
  onGone: () => void;
}

/** Everything about one agent: who it is, what it is told, what it may do. */
export function AgentEditor({ team, agent, isNew, readOnly, onSaved, onGone }: Props) {
  const edited = useEdited<AgentForm>(formOf(agent));
  const form = edited.value;
  const [wrong, setWrong] = useState<Faults>({});
  const { save, ways } = useSave(team, agent, isNew);
  const faults = { ...agentFaults(save.error, form.name, agent.leader), ...wrong };
  const body = putOf(form);
  const run = () => {
    const found: Faults = HANDLE.test(body.name) ? {} : { name: HANDLE_RULE };
    setWrong(found);
    if (Object.keys(found).length > 0) return;
    save.run(body, (saved) => {
      edited.saved();
      keepTeam(saved);
      onSaved(body.name);
    });
  };
  const title = isNew ? "New worker" : agent.name;
  return (
    <Section
      title={title}
      note={agent.leader ? "The leader: messages go to it." : "A worker: the leader hands work to it."}
      actions={
        <>
          {!isNew && <CopyCurl method="PUT" path={ways.path} body={body} />}
          {!isNew && !agent.leader && !readOnly && <RemoveWorker team={team} name={agent.name} onGone={onGone} />}
        </>
      }
    >
      <div className="grid gap-5">
        <div className="grid gap-4 sm:grid-cols-[1fr_2fr_1fr]">
          <TextField label="Name" className="[&_input]:font-mono" spellCheck={false} maxLength={63} disabled={readOnly} value={form.name} error={faults.name} onChange={(event) => edited.change({ name: event.target.value })} />
          <TextField label="Role" maxLength={500} disabled={readOnly} placeholder="What it is there for, in one line" value={form.role} error={faults.role} onChange={(event) => edited.change({ role: event.target.value })} />
          <ModelSelect value={form.model} disabled={readOnly} standard={{ value: "", name: "That of the team" }} error={faults.model} onChange={(model) => edited.change({ model })} />
        </div>
        <MarkdownEditor label="Instructions" readOnly={readOnly} value={form.instructions} error={faults.instructions} onChange={(instructions) => edited.change({ instructions })} />
        <SkillChoice team={team} chosen={form.skills} disabled={readOnly} onChange={(skills) => edited.change({ skills })} />
        <PermissionFields provider={team.provider} value={form.permissions} disabled={readOnly} error={faultAt(faults, "permissions")} onChange={(part) => edited.change({ permissions: { ...form.permissions, ...part } })} />
        {save.error && Object.keys(faults).length === 0 ? <Problem error={save.error} /> : null}
        {!readOnly && <SaveBar edited={edited} isNew={isNew} busy={save.busy} deployed={team.deployed} onSave={run} />}
      </div>
      <UnsavedGuard unsaved={edited.unsaved} what={title} />
    </Section>
  );
}

function useSave(team: TeamDetails, agent: Schemas["AgentRead"], isNew: boolean) {
  const leader = $api.useMutation("put", "/api/teams/{team_id}/leader");
  const worker = $api.useMutation("put", "/api/teams/{team_id}/workers/{name}");
  const team_id = team.id;
  const run = (body: AgentPut, onSuccess: (team: TeamDetails) => void) => {
    if (agent.leader) leader.mutate({ params: { path: { team_id } }, body }, { onSuccess });
    else worker.mutate({ params: { path: { team_id, name: isNew ? body.name : agent.name } }, body }, { onSuccess });
  };
  return {
    save: { run, busy: leader.isPending || worker.isPending, error: leader.error ?? worker.error },
    ways: { path: agent.leader ? `/api/teams/${team_id}/leader` : `/api/teams/${team_id}/workers/${agent.name}` },
  };
}

/** Faults of one agent: those of its own body, and those that the server finds in the whole team. */
function agentFaults(error: unknown, name: string, leads: boolean): Faults {
  if (!error) return {};
  const found = faultsOf(error, leads ? [name] : ["", name]);
  // Of the whole team it is only said which worker by its place; the one that was changed is meant.
  const own = Object.entries(found).map(([path, message]) => [path.replace(/^(leader|workers\.\d+)\./, ""), message]);
  return problemOf(error).code === "team_name_taken" ? {} : Object.fromEntries(own);
}

function formOf(agent: Schemas["AgentRead"]): AgentForm {
  return {
    name: agent.name,
    role: agent.role,
    model: agent.model ?? "",
    instructions: agent.instructions,
    skills: agent.skills,
    permissions: draftOfPermissions(agent.permissions),
  };
}

function putOf(form: AgentForm): AgentPut {
  return {
    name: form.name.trim(),
    role: form.role.trim(),
    instructions: form.instructions,
    model: form.model === "" ? null : form.model,
    skills: form.skills,
    permissions: permissionsOf(form.permissions),
  };
}

function SkillChoice({ team, chosen, disabled, onChange }: { team: TeamDetails; chosen: string[]; disabled: boolean; onChange: (skills: string[]) => void }) {
  const skills = skillsOf(team);
  return (
    <fieldset className="grid gap-2">
      <legend className="mb-1 text-sm font-medium">Skills</legend>
      {skills.length === 0 && (
        <p className="text-xs text-soft">
          The team has none.{" "}
          <Link to="/teams/$teamId" params={{ teamId: team.id }} search={{ tab: "skills" }} className="text-accent-ink underline">
            Add a skill
          </Link>{" "}
          to choose it here.
        </p>
      )}
      <div className="grid gap-2 sm:grid-cols-2">
        {skills.map((skill) => (
          <Checkbox
            key={skill.name}
            label={skill.name}
            hint={skill.description}
            disabled={disabled}
            checked={chosen.includes(skill.name)}
            onChange={(event) => onChange(event.target.checked ? [...chosen, skill.name] : chosen.filter((each) => each !== skill.name))}
          />
        ))}
      </div>
    </fieldset>
  );
}

function RemoveWorker({ team, name, onGone }: { team: TeamDetails; name: string; onGone: () => void }) {
  const [asking, setAsking] = useState(false);
  const remove = $api.useMutation("delete", "/api/teams/{team_id}/workers/{name}");
  const confirm = () =>
    remove.mutate(
      { params: { path: { team_id: team.id, name } } },
      {
        onSuccess: (saved) => {
          onGone();
          keepTeam(saved);
        },
      },
    );
  return (
    <>
      <Button size="small" look="quiet" onClick={() => setAsking(true)}>
        Remove…
      </Button>
      {asking && (
        <Confirm title={`Remove ${name}?`} action="Remove the worker" danger busy={remove.isPending} error={remove.error} onConfirm={confirm} onClose={() => setAsking(false)}>
          <p>Its role, instructions and permissions go. What it has done for earlier messages stays.</p>
          <p>The leader's instructions may still name it: look through them.</p>
        </Confirm>
      )}
    </>
  );
}
