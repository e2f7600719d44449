import clsx from "clsx";

import { timeZone } from "@/lib/format";

import { type Timed, timingInWords, zoneInWords } from "./words";

/** When it fires, in words, with the reader's own time where the zones differ. */
export function TimingWords({ schedule, className }: { schedule: Timed; className?: string }) {
  const zone = zoneInWords(schedule, timeZone);
  return (
    <div className={clsx("min-w-0 text-sm", className)}>
      <span title={schedule.cron ?? undefined}>
        {timingInWords(schedule, timeZone)}
        {zone && ` ${zone.where}`}
      </span>
      {zone?.yours && <span className="block text-xs text-faint">{zone.yours} your time</span>}
    </div>
  );
}
