import { Plus, Trash2 } from "lucide-react";

import { Button, IconButton } from "@/ui/Button";
import { SelectField, TextField } from "@/ui/Field";

import type { GateForm } from "./form";

const KINDS: Record<GateForm["kind"], { name: string; label: string; placeholder: string }> = {
  command: { name: "A command succeeds", label: "Command", placeholder: "ruff check ." },
  tests: { name: "The tests pass", label: "Test command", placeholder: "Found by itself" },
  file: { name: "A file exists", label: "Path", placeholder: "report.md" },
  cost: { name: "It stays below a cost", label: "Dollars", placeholder: "0.10" },
  time: { name: "It stays below a time", label: "Seconds", placeholder: "600" },
  rubric: { name: "A model judges the result", label: "Rubric", placeholder: "The report names its sources" },
  approval: { name: "A person agrees", label: "Question", placeholder: "Is the result good enough?" },
};
const ON_FAIL: Record<GateForm["onFail"], string> = {
  fail: "fail the session",
  retry: "let it try again",
  rollback: "roll back",
};

/** What has to hold before the session counts as complete. */
export function Gates({ gates, onChange }: { gates: GateForm[]; onChange: (gates: GateForm[]) => void }) {
  const change = (index: number, part: Partial<GateForm>) => onChange(gates.map((gate, at) => (at === index ? { ...gate, ...part } : gate)));
  const add = () => onChange([...gates, { kind: "tests", name: `gate-${gates.length + 1}`, value: "", onFail: "retry" }]);
  return (
    <fieldset className="grid gap-3">
      <legend className="text-sm font-medium">Gates</legend>
      <p className="text-xs text-faint">What has to hold before the session counts as complete.</p>
      {gates.map((gate, index) => (
        <div key={index} className="grid items-end gap-3 rounded-md border border-line p-3 sm:grid-cols-[10rem_minmax(0,1fr)_minmax(0,1.4fr)_9rem_auto]">
          <TextField label="Name" value={gate.name} onChange={(event) => change(index, { name: event.target.value })} />
          <SelectField label="Holds when" value={gate.kind} onChange={(event) => change(index, { kind: event.target.value as GateForm["kind"] })}>
            {Object.entries(KINDS).map(([kind, each]) => (
              <option key={kind} value={kind}>
                {each.name}
              </option>
            ))}
          </SelectField>
          <TextField label={KINDS[gate.kind].label} placeholder={KINDS[gate.kind].placeholder} value={gate.value} onChange={(event) => change(index, { value: event.target.value })} />
          <SelectField label="Otherwise" value={gate.onFail} onChange={(event) => change(index, { onFail: event.target.value as GateForm["onFail"] })}>
            {Object.entries(ON_FAIL).map(([value, name]) => (
              <option key={value} value={value}>
                {name}
              </option>
            ))}
          </SelectField>
          <IconButton label={`Remove gate ${gate.name}`} onClick={() => onChange(gates.filter((_, at) => at !== index))}>
            <Trash2 size={16} />
          </IconButton>
        </div>
      ))}
      <Button className="justify-self-start" size="small" icon={<Plus size={14} />} onClick={add}>
        Add a gate
      </Button>
    </fieldset>
  );
}
