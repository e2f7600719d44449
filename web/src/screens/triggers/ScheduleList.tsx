import { Link } from "@tanstack/react-router";
import { Play } from "lucide-react";
import type { ReactNode } from "react";

import { useMay } from "@/api/session";
import { Button } from "@/ui/Button";
import { RunBadge } from "@/ui/states";
import { Time } from "@/ui/Time";
import { tell } from "@/ui/toasts";

import { type Run, type Schedule, useNewestRuns, useRunNow, useSwitch } from "./scheduleQueries";
import { Switch } from "./Switch";
import { Target } from "./Target";
import { TimingWords } from "./TimingWords";

/** Each schedule with its timing, what came of it last, and its switch. */
export function ScheduleList({ schedules }: { schedules: Schedule[] }) {
  const runs = useNewestRuns(schedules, 1);
  const may = useMay("schedules:write");
  return (
    <ul className="divide-y divide-line rounded-lg border border-line bg-surface shadow-card">
      {schedules.map((schedule) => (
        <Row key={schedule.id} schedule={schedule} runs={runs.get(schedule.id)} may={may} />
      ))}
    </ul>
  );
}

function Row({ schedule, runs, may }: { schedule: Schedule; runs: Run[] | undefined; may: boolean }) {
  const toggle = useSwitch(schedule);
  const run = useRunNow(schedule, () => tell(`${schedule.name} runs now.`));
  const last = runs?.[0];
  const over = schedule.enabled && schedule.next_at === null;
  return (
    <li className="grid items-center gap-x-5 gap-y-2 px-4 py-3 md:grid-cols-[minmax(0,5fr)_minmax(0,5fr)_8rem_11rem_10.5rem]">
      <div className="min-w-0">
        <Link
          to="/schedules/$scheduleId"
          params={{ scheduleId: schedule.id }}
          className="block truncate text-sm font-medium hover:underline"
          title={schedule.name}
        >
          {schedule.name}
        </Link>
        <span className="flex text-xs text-soft">
          <Target of={schedule} />
        </span>
      </div>
      <TimingWords schedule={schedule} />
      <Pair name="Next run">
        {schedule.next_at ? <Time at={schedule.next_at} /> : over ? "None left" : "Paused"}
      </Pair>
      <Pair
        name={
          <>
            Last run {last && <Time at={last.due_at} />}
          </>
        }
      >
        {last ? (
          <span title={last.error ?? undefined}>
            <RunBadge state={last.state} />
          </span>
        ) : runs ? (
          "None yet"
        ) : (
          "…"
        )}
      </Pair>
      {may && (
        <div className="flex items-center justify-end gap-2 max-md:justify-between">
          <Button size="small" look="quiet" icon={<Play size={13} />} busy={run.busy} onClick={run.start}>
            Run now <span className="sr-only">{schedule.name}</span>
          </Button>
          <Switch label={`${schedule.name} is on`} on={schedule.enabled} busy={toggle.busy} onChange={toggle.set} />
        </div>
      )}
    </li>
  );
}

/** A name that phones need, where there are no columns to tell it by. */
function Pair({ name, children }: { name: ReactNode; children: ReactNode }) {
  return (
    <div className="text-sm max-md:flex max-md:items-center max-md:justify-between max-md:gap-4">
      <span className="block text-xs text-faint">{name}</span>
      <span>{children}</span>
    </div>
  );
}
