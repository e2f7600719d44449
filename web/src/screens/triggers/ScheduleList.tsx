import { Link } from "@tanstack/react-router";
import { Play } from "lucide-react";

import { useMay } from "@/api/session";
import { Button } from "@/ui/Button";
import { Time } from "@/ui/Time";
import { tell } from "@/ui/toasts";

import { LastRun, Pair } from "./LastRun";
import { type Schedule, useRunNow, useSwitch } from "./scheduleQueries";
import { Switch } from "./Switch";
import { Target } from "./Target";
import { TimingWords } from "./TimingWords";

/** Each schedule with its timing, what came of it last, and its switch. */
export function ScheduleList({ schedules }: { schedules: Schedule[] }) {
  const may = useMay("schedules:write");
  return (
    <ul className="divide-y divide-line rounded-lg border border-line bg-surface shadow-card">
      {schedules.map((schedule) => (
        <Row key={schedule.id} schedule={schedule} may={may} />
      ))}
    </ul>
  );
}

function Row({ schedule, may }: { schedule: Schedule; may: boolean }) {
  const toggle = useSwitch(schedule);
  const run = useRunNow(schedule, () => tell(`${schedule.name} runs now.`));
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
      <LastRun of={schedule} at={{ to: "/schedules/$scheduleId", params: { scheduleId: schedule.id } }} />
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
