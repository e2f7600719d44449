import { TextField } from "@/ui/Field";

import type { Step } from "../journal";
import { nameOf, summaryOf } from "../steps";

interface Props {
  label: string;
  steps: Step[];
  value: number;
  onChange: (seq: number) => void;
}

/** A step by its number; below it stands what that step is. */
export function StepField({ label, steps, value, onChange }: Props) {
  const step = steps[value - 1];
  const about = step ? [nameOf(step), summaryOf(step)].filter(Boolean).join(" · ") : "";
  return (
    <TextField
      label={label}
      type="number"
      min={1}
      max={steps.length}
      value={value}
      hint={<span className="line-clamp-1">{about}</span>}
      onChange={(event) => {
        const seq = event.target.valueAsNumber;
        if (Number.isSafeInteger(seq)) onChange(Math.max(1, Math.min(steps.length, seq)));
      }}
    />
  );
}
