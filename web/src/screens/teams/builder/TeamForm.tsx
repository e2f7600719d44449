import { ArrowLeft, ArrowRight, Plus } from "lucide-react";

import { Button } from "@/ui/Button";
import { Section } from "@/ui/Card";
import { SelectField, TextArea, TextField } from "@/ui/Field";

import { type AgentDraft, newWorker, type TeamDraft } from "../draft";
import { faultAt, type Faults, faultsBelow } from "../faults";
import { ModelSelect } from "../ModelSelect";
import { type Runtime, RUNTIMES } from "../words";
import { AgentForm } from "./AgentForm";
import { ProviderChoice } from "./ProviderChoice";

interface Props {
  draft: TeamDraft;
  faults: Faults;
  change: (part: Partial<TeamDraft>) => void;
  onBack: () => void;
  onNext: () => void;
}

/** The second step: what the team is called, what drives it, and who is in it. */
export function TeamForm({ draft, faults, change, onBack, onNext }: Props) {
  const setWorker = (index: number, worker: AgentDraft) => change({ workers: draft.workers.map((each, at) => (at === index ? worker : each)) });
  return (
    <form
      noValidate
      className="grid gap-5"
      onSubmit={(event) => {
        event.preventDefault();
        onNext();
      }}
    >
      <Section title="The team">
        <div className="grid gap-4 sm:grid-cols-2">
          <TextField label="Name" required maxLength={100} value={draft.name} error={faultAt(faults, "name")} onChange={(event) => change({ name: event.target.value })} />
          <ModelSelect value={draft.model} standard={{ value: "auto", name: "Auto: the first of your models" }} hint="Agents use it unless they have their own." error={faultAt(faults, "model")} onChange={(model) => change({ model })} />
          <TextArea label="Description" className="sm:col-span-2" rows={2} maxLength={2000} hint="What people should ask it for." value={draft.description} error={faultAt(faults, "description")} onChange={(event) => change({ description: event.target.value })} />
        </div>
      </Section>
      <Section title="What drives it" note="This cannot be changed later.">
        <div className="grid gap-4">
          <ProviderChoice value={draft.provider} onChange={(provider) => change({ provider })} />
          {draft.provider !== "native" && (
            <div className="grid gap-4 sm:grid-cols-2">
              <SelectField label="Runtime" hint="Either way it sees its own workspace and nothing else of the machine." value={draft.runtime} error={faultAt(faults, "runtime")} onChange={(event) => change({ runtime: event.target.value as Runtime })}>
                {Object.entries(RUNTIMES).map(([runtime, words]) => (
                  <option key={runtime} value={runtime}>
                    {words}
                  </option>
                ))}
              </SelectField>
              {draft.provider === "acp" && (
                <TextField label="ACP command" placeholder="/opt/agents/my-agent --acp" hint="What starts the agent; quotes keep words together." className="[&_input]:font-mono" value={draft.command} error={faultAt(faults, "command")} onChange={(event) => change({ command: event.target.value })} />
              )}
            </div>
          )}
        </div>
      </Section>
      <Section title="Leader" note="Messages to the team go to it.">
        <AgentForm agent={draft.leader} faults={faultsBelow(faults, "leader")} onChange={(leader) => change({ leader })} />
      </Section>
      <Section
        title="Workers"
        note="The leader hands parts of the work to them."
        actions={
          <Button size="small" icon={<Plus size={14} aria-hidden />} disabled={draft.workers.length >= 50} onClick={() => change({ workers: [...draft.workers, newWorker(draft)] })}>
            Add a worker
          </Button>
        }
      >
        {draft.workers.length === 0 && <p className="text-sm text-soft">None: the leader does everything itself.</p>}
        <ul className="grid gap-3">
          {draft.workers.map((worker, index) => (
            <li key={worker.key} className="rounded-md border border-line bg-page p-3.5">
              <AgentForm
                agent={worker}
                number={index + 1}
                faults={faultsBelow(faults, `workers.${index}`)}
                onChange={(next) => setWorker(index, next)}
                onRemove={() => change({ workers: draft.workers.filter((each) => each !== worker) })}
              />
            </li>
          ))}
        </ul>
      </Section>
      <div className="flex flex-wrap justify-between gap-2">
        <Button icon={<ArrowLeft size={15} aria-hidden />} onClick={onBack}>
          Template
        </Button>
        <Button type="submit" look="primary">
          Look over <ArrowRight size={15} aria-hidden />
        </Button>
      </div>
    </form>
  );
}
