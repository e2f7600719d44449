import { Link } from "@tanstack/react-router";
import clsx from "clsx";
import { Check, CircleDashed, CircleHelp, Loader, type LucideIcon, Minus, X } from "lucide-react";

import { plural, timeZone } from "@/lib/format";
import { RUN_STATES } from "@/ui/states";

import type { Entry } from "./entries";
import { clockAt } from "./words";

const ICONS: Record<NonNullable<Entry["state"]>, { icon: LucideIcon; look: string }> = {
  queued: { icon: CircleDashed, look: "text-calm" },
  running: { icon: Loader, look: "text-info" },
  succeeded: { icon: Check, look: "text-good" },
  failed: { icon: X, look: "text-bad" },
  cancelled: { icon: Minus, look: "text-calm" },
  uncertain: { icon: CircleHelp, look: "text-warn" },
  skipped: { icon: Minus, look: "text-calm" },
};

/** "09:00 Morning report, succeeded". */
export function entryInWords(entry: Entry): string {
  const when = entry.count > 1 ? plural(entry.count, "run") : clockAt(entry.at, timeZone);
  return `${when} ${entry.schedule.name}, ${outcome(entry)}`;
}

function outcome({ state, count, failed }: Entry): string {
  if (state === undefined) return "to come";
  if (count === 1) return RUN_STATES[state].word.toLowerCase();
  return failed > 0 ? `${failed} failed` : "none failed";
}

/** One line of a day, a link to its schedule. */
export function EntryLine({ entry, roomy = false }: { entry: Entry; roomy?: boolean }) {
  const sign = entry.state && ICONS[entry.state];
  const many = entry.count > 1;
  return (
    <Link
      to="/schedules/$scheduleId"
      params={{ scheduleId: entry.schedule.id }}
      title={entryInWords(entry)}
      className={clsx(
        "flex min-w-0 items-center gap-1.5 -outline-offset-2",
        roomy ? "min-h-10 rounded-md border border-line px-3 text-sm" : "h-6 rounded-sm px-1.5 text-xs",
        entry.state === undefined ? "bg-accent-soft text-ink hover:brightness-95" : entry.failed > 0 ? "bg-bad-soft hover:brightness-95" : "hover:bg-hover",
        entry.state !== undefined && "text-soft",
      )}
    >
      {sign && <sign.icon size={roomy ? 15 : 12} aria-hidden className={clsx("shrink-0", sign.look)} />}
      <span className={clsx("shrink-0 tabular", roomy && !many && "w-11")}>{many ? plural(entry.count, "run") : clockAt(entry.at, timeZone)} </span>
      <span className="min-w-0 flex-1 truncate font-medium">{entry.schedule.name}</span>
      <span className={roomy ? "shrink-0 text-xs text-soft" : "sr-only"}> {outcome(entry)}</span>
    </Link>
  );
}
