import { FilePlus2, Trash2 } from "lucide-react";
import { type RefObject, useState } from "react";

import { Button, IconButton } from "@/ui/Button";
import { Section } from "@/ui/Card";
import { CopyCurl } from "@/ui/Copy";
import { Confirm } from "@/ui/Dialog";
import { TextArea, TextField } from "@/ui/Field";
import { Problem } from "@/ui/Problem";

import { newName, type Skill, skillChange, skillsOf } from "../documents";
import { faultAt, type Faults, faultsBelow, faultsOf, HANDLE, HANDLE_RULE } from "../faults";
import { type TeamDetails, useUpdateTeam } from "../teamQueries";
import { SaveBar, UnsavedGuard, useEdited } from "./edited";
import { MarkdownEditor } from "./MarkdownEditor";

interface SkillForm {
  name: string;
  description: string;
  instructions: string;
  files: [path: string, text: string][];
}

interface Props {
  team: TeamDetails;
  skill: Skill;
  isNew: boolean;
  readOnly: boolean;
  /** Tells the list whether leaving would lose something. */
  unsaved: RefObject<() => boolean>;
  onSaved: (name: string) => void;
}

/** One skill: its name, when to use it, what it says, and its files. */
export function SkillEditor({ team, skill, isNew, readOnly, unsaved, onSaved }: Props) {
  const edited = useEdited<SkillForm>({ ...skill, files: Object.entries(skill.files ?? {}) });
  unsaved.current = edited.unsaved;
  const form = edited.value;
  const update = useUpdateTeam();
  const [wrong, setWrong] = useState<Faults>({});
  const before = isNew ? undefined : skill.name;
  const body = skillChange(team, before, skillOf(form));
  const place = isNew ? skillsOf(team).length : skillsOf(team).findIndex((each) => each.name === skill.name);
  const faults = { ...(update.error ? faultsBelow(faultsOf(update.error), `skills.${place}`) : {}), ...wrong };
  const save = () => {
    const found = formFaults(form);
    setWrong(found);
    if (Object.keys(found).length > 0) return;
    update.mutate(
      { params: { path: { team_id: team.id } }, body },
      {
        onSuccess: () => {
          edited.saved();
          onSaved(form.name.trim());
        },
      },
    );
  };
  return (
    <Section
      title={isNew ? "New skill" : skill.name}
      note="Agents that are told of it read it when they need it."
      actions={
        <>
          {!isNew && <CopyCurl method="PATCH" path={`/api/teams/${team.id}`} body={body} />}
          {!isNew && !readOnly && <RemoveSkill team={team} name={skill.name} />}
        </>
      }
    >
      <div className="grid gap-5">
        <div className="grid gap-4 sm:grid-cols-[1fr_2fr]">
          <TextField label="Name" className="[&_input]:font-mono" spellCheck={false} maxLength={63} disabled={readOnly} value={form.name} error={faults.name} onChange={(event) => edited.change({ name: event.target.value })} />
          <TextField label="Description" maxLength={1000} disabled={readOnly} placeholder="What it is for and when to use it" value={form.description} error={faults.description} onChange={(event) => edited.change({ description: event.target.value })} />
        </div>
        <MarkdownEditor label="Instructions" rows={12} readOnly={readOnly} value={form.instructions} error={faults.instructions} onChange={(instructions) => edited.change({ instructions })} />
        <Files files={form.files} readOnly={readOnly} error={faultAt(faults, "files")} onChange={(files) => edited.change({ files })} />
        {update.error && Object.keys(faults).length === 0 ? <Problem error={update.error} /> : null}
        {!readOnly && <SaveBar edited={edited} isNew={isNew} busy={update.isPending} deployed={team.deployed} onSave={save} />}
      </div>
      <UnsavedGuard unsaved={edited.unsaved} what={isNew ? "the new skill" : skill.name} />
    </Section>
  );
}

function skillOf(form: SkillForm): Skill {
  return {
    name: form.name.trim(),
    description: form.description.trim(),
    instructions: form.instructions,
    files: Object.fromEntries(form.files.map(([path, text]) => [path.trim(), text])),
  };
}

function formFaults(form: SkillForm): Faults {
  const faults: Faults = {};
  if (!HANDLE.test(form.name.trim())) faults.name = HANDLE_RULE;
  if (form.description.trim() === "") faults.description = "Say what it is for: agents choose by it.";
  const paths = form.files.map(([path]) => path.trim());
  if (paths.some((path) => path === "")) faults.files = "Each file needs a path.";
  else if (new Set(paths).size < paths.length) faults.files = "Two files have the same path.";
  return faults;
}

function Files({ files, readOnly, error, onChange }: { files: SkillForm["files"]; readOnly: boolean; error: string | undefined; onChange: (files: SkillForm["files"]) => void }) {
  const set = (index: number, file: SkillForm["files"][number]) => onChange(files.map((each, at) => (at === index ? file : each)));
  return (
    <fieldset className="grid gap-3">
      <legend className="mb-1 text-sm font-medium">Files</legend>
      {files.length === 0 && <p className="text-xs text-soft">None beside SKILL.md, which is made of the instructions.</p>}
      {files.map(([path, text], index) => (
        <div key={index} className="grid gap-2 rounded-md border border-line p-3">
          <div className="flex items-end gap-2">
            <TextField label="Path within the skill" className="flex-1 [&_input]:font-mono" disabled={readOnly} value={path} onChange={(event) => set(index, [event.target.value, text])} />
            {!readOnly && (
              <IconButton label={`Remove ${path}`} onClick={() => onChange(files.filter((_, at) => at !== index))}>
                <Trash2 size={15} />
              </IconButton>
            )}
          </div>
          <TextArea label={`Text of ${path}`} hideLabel mono rows={5} disabled={readOnly} value={text} onChange={(event) => set(index, [path, event.target.value])} />
        </div>
      ))}
      {error && (
        <p role="alert" className="text-xs text-bad">
          {error}
        </p>
      )}
      {!readOnly && files.length < 50 && (
        <Button size="small" className="justify-self-start" icon={<FilePlus2 size={14} aria-hidden />} onClick={() => onChange([...files, [`${newName("notes", files.map(([path]) => path.replace(/\.md$/, "")))}.md`, ""]])}>
          Add a file
        </Button>
      )}
    </fieldset>
  );
}

function RemoveSkill({ team, name }: { team: TeamDetails; name: string }) {
  const [asking, setAsking] = useState(false);
  const update = useUpdateTeam();
  const confirm = () => update.mutate({ params: { path: { team_id: team.id } }, body: skillChange(team, name, null) }, { onSuccess: () => setAsking(false) });
  return (
    <>
      <Button size="small" look="quiet" onClick={() => setAsking(true)}>
        Remove…
      </Button>
      {asking && (
        <Confirm title={`Remove the skill ${name}?`} action="Remove the skill" danger busy={update.isPending} error={update.error} onConfirm={confirm} onClose={() => setAsking(false)}>
          <p>Its instructions and files go, and agents are not told of it any more. The agents themselves stay as they are.</p>
        </Confirm>
      )}
    </>
  );
}
