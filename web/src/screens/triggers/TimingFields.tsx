import { useDeferredValue, useEffect, useMemo, useState } from "react";

import { $api } from "@/api/client";
import { problemOf } from "@/api/problem";
import type { Schemas } from "@/api/types";
import { formatRelative, timeZone } from "@/lib/format";
import { Button } from "@/ui/Button";
import { SelectField, TextField } from "@/ui/Field";
import { Choice } from "@/ui/Tabs";

import { timingBody, type TimingForm } from "./form";
import { clockAt, cronInWords, dayAndClock, dayInWords } from "./words";

const PRESETS: { name: string; cron: string }[] = [
  { name: "Weekdays at 09:00", cron: "0 9 * * 1-5" },
  { name: "Every day at 07:00", cron: "0 7 * * *" },
  { name: "Every hour", cron: "0 * * * *" },
  { name: "Mondays at 08:00", cron: "0 8 * * 1" },
  { name: "First of the month", cron: "0 9 1 * *" },
];

interface Props {
  form: TimingForm;
  onChange: (form: TimingForm) => void;
  /** An interval stays one, or becomes a cron: the server keeps its beat otherwise. */
  wasInterval?: boolean;
}

/** When it fires, with the next moments as the server counts them. */
export function TimingFields({ form, onChange, wasInterval = false }: Props) {
  const set = (change: Partial<TimingForm>) => onChange({ ...form, ...change });
  const kinds: { value: TimingForm["kind"]; name: string }[] = [
    { value: "cron", name: "By cron" },
    { value: "interval", name: "At an interval" },
    ...(wasInterval ? [] : [{ value: "once" as const, name: "Once" }]),
  ];
  return (
    <fieldset className="grid gap-4">
      <legend className="sr-only">When it fires</legend>
      <div>
        <Choice label="When it fires" value={form.kind} onChange={(kind) => set({ kind })} options={kinds} />
      </div>
      {form.kind === "cron" && <CronField form={form} set={set} />}
      {form.kind === "interval" && (
        <div className="grid grid-cols-2 gap-4">
          <TextField label="Every" type="number" min={form.unit === "1" ? 10 : 1} step={1} required value={form.every} onChange={(event) => set({ every: event.target.value })} />
          <SelectField label="Unit" value={form.unit} onChange={(event) => set({ unit: event.target.value as TimingForm["unit"] })}>
            <option value="1">seconds</option>
            <option value="60">minutes</option>
            <option value="3600">hours</option>
            <option value="86400">days</option>
          </SelectField>
        </div>
      )}
      <div className="grid gap-4 sm:grid-cols-2">
        {form.kind !== "cron" && (
          <TextField
            label={form.kind === "once" ? "Moment" : "First run"}
            type="datetime-local"
            required={form.kind === "once"}
            value={form.at}
            hint={form.kind === "interval" ? "Empty: it counts from now." : undefined}
            onChange={(event) => set({ at: event.target.value })}
          />
        )}
        <ZoneField value={form.zone} onChange={(zone) => set({ zone })} />
      </div>
      <Preview timing={timingBody(form)} zone={form.zone} />
    </fieldset>
  );
}

function CronField({ form, set }: { form: TimingForm; set: (change: Partial<TimingForm>) => void }) {
  const words = cronInWords(form.cron);
  return (
    <div className="grid gap-2">
      <TextField
        label="Cron"
        required
        maxLength={200}
        spellCheck={false}
        autoComplete="off"
        value={form.cron}
        hint={words.startsWith("By cron") ? "Minute, hour, day, month, weekday." : `${words}.`}
        onChange={(event) => set({ cron: event.target.value })}
      />
      <div role="group" aria-label="Often used" className="flex flex-wrap gap-1.5">
        {PRESETS.map((preset) => (
          <Button key={preset.cron} size="small" aria-pressed={form.cron.trim() === preset.cron} onClick={() => set({ cron: preset.cron })}>
            {preset.name}
          </Button>
        ))}
      </div>
    </div>
  );
}

function ZoneField({ value, onChange }: { value: string; onChange: (zone: string) => void }) {
  const zones = useMemo(() => [...new Set(["UTC", timeZone, value, ...Intl.supportedValuesOf("timeZone")])], [value]);
  return (
    <SelectField label="Time zone" value={value} onChange={(event) => onChange(event.target.value)}>
      {zones.map((zone) => (
        <option key={zone} value={zone}>
          {zone === timeZone ? `${zone} (yours)` : zone}
        </option>
      ))}
    </SelectField>
  );
}

/** The value as it was a moment ago: typing does not ask the server for every letter. */
function useSettled<T>(value: T, key: string): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), 300);
    return () => clearTimeout(timer);
    // The key stands for the value, which is a new object each time.
  }, [key]);
  return settled;
}

function Preview({ timing, zone }: { timing: Schemas["Timing"] | undefined; zone: string }) {
  const settled = useSettled(timing, JSON.stringify(timing));
  const query = $api.useQuery("post", "/api/schedules/preview", { body: settled! }, { enabled: settled !== undefined, retry: false, placeholderData: (before) => before });
  const upcoming = useDeferredValue(query.isError || !settled ? [] : (query.data?.upcoming ?? []));
  const problem = query.isError && settled ? problemOf(query.error) : undefined;
  return (
    <div aria-live="polite" className="min-h-36 rounded-md border border-line bg-sunken p-3 text-sm">
      <p className="mb-1 text-xs text-faint">Next runs, in your time</p>
      {!timing && <p className="text-soft">Say when, and the next runs appear here.</p>}
      {timing && problem && (
        <>
          <p className="break-words text-bad">{problem.message}</p>
          {problem.hint && <p className="text-soft">{problem.hint}</p>}
        </>
      )}
      {timing && !problem && query.isSuccess && upcoming.length === 0 && <p className="text-bad">That moment has passed.</p>}
      {timing && !problem && (
        <ol className="grid gap-0.5">
          {upcoming.map((moment) => (
            <li key={moment} className="flex flex-wrap items-baseline gap-x-2 tabular">
              <span>{dayAndClock(Date.parse(moment), timeZone)}</span>
              {clockAt(Date.parse(moment), zone) !== clockAt(Date.parse(moment), timeZone) && (
                <span className="text-xs text-soft">
                  {clockAt(Date.parse(moment), zone)} {zone}
                  {dayInWords(Date.parse(moment), zone) !== dayInWords(Date.parse(moment), timeZone) && `, ${dayInWords(Date.parse(moment), zone)}`}
                </span>
              )}
              <span className="text-xs text-faint">{formatRelative(moment)}</span>
            </li>
          ))}
        </ol>
      )}
    </div>
  );
}
