import { useNavigate } from "@tanstack/react-router";
import { type FormEvent, useId, useState } from "react";

import { $api } from "@/api/client";
import type { Schemas } from "@/api/types";
import { Button } from "@/ui/Button";
import { CopyCurl } from "@/ui/Copy";
import { Dialog } from "@/ui/Dialog";
import { Checkbox, SelectField, TextField } from "@/ui/Field";
import { Problem } from "@/ui/Problem";

import { newTarget, newTiming, targetBody, targetChange, targetFault, targetOf, timingBody, timingChange, timingOf } from "./form";
import { keepSchedule, type Schedule } from "./scheduleQueries";
import { TargetFields } from "./TargetFields";
import { TimingFields } from "./TimingFields";
import { MISSED } from "./words";

type Missed = Schedule["missed"];

/** Makes a schedule, or changes one. */
export function ScheduleDialog({ schedule, onClose }: { schedule?: Schedule; onClose: () => void }) {
  const navigate = useNavigate();
  const formId = useId();
  const [name, setName] = useState(schedule?.name ?? "");
  const [target, setTarget] = useState(() => (schedule ? targetOf(schedule) : newTarget()));
  const [timing, setTiming] = useState(() => (schedule ? timingOf(schedule) : newTiming()));
  const [missed, setMissed] = useState<Missed>(schedule?.missed ?? "once");
  const [enabled, setEnabled] = useState(true);
  const create = $api.useMutation("post", "/api/schedules", {
    onSuccess: (made) => {
      keepSchedule(made);
      void navigate({ to: "/schedules/$scheduleId", params: { scheduleId: made.id } });
    },
  });
  const update = $api.useMutation("patch", "/api/schedules/{schedule_id}", {
    onSuccess: (changed) => {
      keepSchedule(changed);
      onClose();
    },
  });
  const body = { name: name.trim(), ...targetBody(target), ...timingBody(timing), missed, enabled };
  const ready = name.trim() !== "" && !targetFault(target) && timingBody(timing) !== undefined;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (!ready) return;
    if (!schedule) create.mutate({ body: body as Schemas["ScheduleCreate"] });
    else {
      const change = { name: name.trim(), missed, ...targetChange(target, schedule), ...timingChange(timing, timingOf(schedule)) };
      update.mutate({ params: { path: { schedule_id: schedule.id } }, body: change });
    }
  };
  const error = create.error ?? update.error;
  return (
    <Dialog
      wide
      title={schedule ? `Edit ${schedule.name}` : "New schedule"}
      onClose={onClose}
      footer={
        <>
          {!schedule && (
            <span className="mr-auto">
              <CopyCurl method="POST" path="/api/schedules" body={body} />
            </span>
          )}
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" form={formId} look="primary" disabled={!ready} busy={create.isPending || update.isPending}>
            {schedule ? "Save" : "Create"}
          </Button>
        </>
      }
    >
      <form id={formId} onSubmit={submit} className="grid gap-6">
        <TextField label="Name" required maxLength={100} value={name} placeholder="Morning report" onChange={(event) => setName(event.target.value)} />
        <Part title="What it does">
          <TargetFields form={target} onChange={setTarget} fixed={schedule !== undefined} placeholder="What is open today? Sum up in five lines." />
        </Part>
        <Part title="When it fires">
          <TimingFields form={timing} onChange={setTiming} wasInterval={schedule?.kind === "interval"} />
        </Part>
        <Part title="When it was missed">
          <SelectField
            label="What was missed while AgentOS stood still"
            value={missed}
            hint={MISSED[missed].words}
            onChange={(event) => setMissed(event.target.value as Missed)}
          >
            {Object.entries(MISSED).map(([value, policy]) => (
              <option key={value} value={value}>
                {policy.name}
              </option>
            ))}
          </SelectField>
          {!schedule && <Checkbox label="It is on" hint="Untick to make it paused; it can be resumed at any time." checked={enabled} onChange={(event) => setEnabled(event.target.checked)} />}
        </Part>
      </form>
      {error ? <Problem error={error} /> : null}
    </Dialog>
  );
}

function Part({ title, children }: { title: string; children: React.ReactNode }) {
  return (
    <section className="grid gap-3 border-t border-line pt-4">
      <h3 className="text-sm font-semibold">{title}</h3>
      {children}
    </section>
  );
}
