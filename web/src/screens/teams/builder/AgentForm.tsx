import { Trash2 } from "lucide-react";

import { IconButton } from "@/ui/Button";
import { TextArea, TextField } from "@/ui/Field";

import type { AgentDraft } from "../draft";
import { faultAt, type Faults } from "../faults";
import { ModelSelect } from "../ModelSelect";

interface Props {
  agent: AgentDraft;
  /** Its place among the workers; the leader has none. */
  number?: number;
  faults: Faults;
  onChange: (agent: AgentDraft) => void;
  onRemove?: () => void;
}

/** One agent of a draft: name, role, model and instructions. */
export function AgentForm({ agent, number, faults, onChange, onRemove }: Props) {
  const change = (part: Partial<AgentDraft>) => onChange({ ...agent, ...part });
  const elsewhere = faultAt(faults, "permissions") ?? faultAt(faults, "skills");
  return (
    <fieldset className="grid gap-3">
      <legend className="sr-only">{number ? `Worker ${number}: ${agent.name}` : `Leader: ${agent.name}`}</legend>
      <div className="grid gap-3 sm:grid-cols-[1fr_2fr_1fr]">
        <TextField label="Name" required maxLength={63} spellCheck={false} autoCapitalize="off" className="[&_input]:font-mono" value={agent.name} error={faultAt(faults, "name")} onChange={(event) => change({ name: event.target.value })} />
        <TextField label="Role" maxLength={500} placeholder="What it is there for, in one line" value={agent.role} error={faultAt(faults, "role")} onChange={(event) => change({ role: event.target.value })} />
        <div className="flex items-start gap-2">
          <ModelSelect value={agent.model} standard={{ value: "", name: "That of the team" }} className="min-w-0 flex-1" error={faultAt(faults, "model")} onChange={(model) => change({ model })} />
          {onRemove && (
            <IconButton label={`Remove ${agent.name}`} className="mt-6.5" onClick={onRemove}>
              <Trash2 size={15} />
            </IconButton>
          )}
        </div>
      </div>
      <TextArea label="Instructions" mono rows={number ? 5 : 8} placeholder="How it works, in Markdown" value={agent.instructions} error={faultAt(faults, "instructions")} onChange={(event) => change({ instructions: event.target.value })} />
      {elsewhere && (
        <p role="alert" className="text-xs text-bad">
          {elsewhere}
        </p>
      )}
    </fieldset>
  );
}
