import { Link } from "@tanstack/react-router";
import clsx from "clsx";
import { ChevronLeft, ChevronRight } from "lucide-react";
import { useMemo, useState } from "react";

import { timeZone } from "@/lib/format";
import { buttonClass } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";
import { Time, useNow } from "@/ui/Time";

import { type Entry, entriesOn, firstWeekday } from "./entries";
import { EntryLine, entryInWords } from "./EntryLine";
import { bordersOf, type Day, dayOf, type Month, monthOf, shiftMonth, weeksOf, writeDay, writeMonth } from "./month";
import { type Schedule, useNewestRuns } from "./scheduleQueries";
import { dayInWords, monthInWords } from "./words";

const SHOWN = 4;
const NEWEST = 200;
const WEEKDAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

interface Shown {
  day: Day;
  start: number;
  entries: Entry[];
  inMonth: boolean;
  today: boolean;
  past: boolean;
}

/** A month of runs: those that were, with how they ended, and those to come. */
export function Calendar({ schedules, month }: { schedules: Schedule[]; month: Month }) {
  const now = useNow();
  const today = writeDay(dayOf(now, timeZone));
  const first = firstWeekday(navigator.language);
  const current = monthOf(now, timeZone);
  const pastToo = writeMonth(month) <= writeMonth(current) || weeksOf(current, first).flat().some((day) => day.month === month.month);
  const runs = useNewestRuns(pastToo ? schedules : [], NEWEST);
  const [opened, setOpened] = useState<string>();
  const days = useMemo(() => weeksOf(month, first).flat(), [month.year, month.month, first]);
  const entries = useMemo(() => entriesOn(days, timeZone, schedules, runs), [days, schedules, runs]);
  const borders = useMemo(() => bordersOf(days, timeZone), [days]);
  const shown = days.map((day, index): Shown => {
    const key = writeDay(day);
    return { day, start: borders[index]!, entries: entries[index]!, inMonth: day.month === month.month, today: key === today, past: key < today };
  });
  const open = shown.find(({ day }) => writeDay(day) === opened);
  const cut = schedules.filter(({ id }) => (runs.get(id)?.length ?? 0) >= NEWEST);
  return (
    <section aria-label="Calendar" className="grid gap-3">
      <Months month={month} current={current} />
      <Grid shown={shown} first={first} onOpen={setOpened} />
      <Agenda shown={shown} />
      <Next schedules={schedules} />
      {cut.length > 0 && (
        <p className="text-xs text-faint">
          Of {cut.map(({ name }) => name).join(", ")} only the newest {NEWEST} runs are shown here; its own page has all of them.
        </p>
      )}
      {open && (
        <Dialog title={dayInWords(open.start, timeZone)} onClose={() => setOpened(undefined)}>
          <ul className="grid gap-1">
            {open.entries.map((entry, index) => (
              <li key={index}>
                <EntryLine entry={entry} roomy />
              </li>
            ))}
          </ul>
        </Dialog>
      )}
    </section>
  );
}

function Months({ month, current }: { month: Month; current: Month }) {
  const step = (by: number, label: string, icon: React.ReactNode) => (
    <Link
      to="/schedules"
      search={{ month: writeMonth(shiftMonth(month, by)) }}
      resetScroll={false}
      aria-label={`${label}: ${words(shiftMonth(month, by))}`}
      title={`${label}: ${words(shiftMonth(month, by))}`}
      className={buttonClass("quiet", "small", "w-8 !px-0")}
    >
      {icon}
    </Link>
  );
  return (
    <div className="flex items-center gap-1">
      <h2 aria-live="polite" className="mr-2 min-w-40 text-lg font-semibold">
        {words(month)}
      </h2>
      {step(-1, "Previous month", <ChevronLeft size={16} aria-hidden />)}
      {step(1, "Next month", <ChevronRight size={16} aria-hidden />)}
      {writeMonth(month) !== writeMonth(current) && (
        <Link to="/schedules" search={{}} resetScroll={false} className={buttonClass("plain", "small")}>
          Today
        </Link>
      )}
    </div>
  );
}

function words({ year, month }: Month): string {
  return monthInWords(year, month);
}

function Grid({ shown, first, onOpen }: { shown: Shown[]; first: number; onOpen: (day: string) => void }) {
  const weeks = Array.from({ length: shown.length / 7 }, (_, week) => shown.slice(week * 7, week * 7 + 7));
  return (
    <table className="w-full table-fixed border-separate border-spacing-0 overflow-hidden rounded-lg border border-line bg-surface text-xs shadow-card max-md:hidden">
      <thead>
        <tr>
          {Array.from({ length: 7 }, (_, at) => (
            <th key={at} scope="col" className="border-b border-line px-2 py-2 text-left font-medium text-faint">
              {WEEKDAYS[(first + at) % 7]}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {weeks.map((week) => (
          <tr key={writeDay(week[0]!.day)}>
            {week.map((cell) => (
              <Cell key={writeDay(cell.day)} cell={cell} onOpen={onOpen} />
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Cell({ cell, onOpen }: { cell: Shown; onOpen: (day: string) => void }) {
  const fits = cell.entries.length <= SHOWN;
  const lines = fits ? cell.entries : cell.entries.slice(0, SHOWN - 1);
  const key = writeDay(cell.day);
  return (
    <td className={clsx("h-30 border-r border-b border-line p-1.5 align-top last:border-r-0", !cell.inMonth && "bg-sunken")}>
      <p className="mb-1 flex h-6 items-center">
        <time
          dateTime={key}
          aria-current={cell.today ? "date" : undefined}
          className={clsx(
            "grid h-6 min-w-6 place-items-center rounded-full px-1 tabular",
            cell.today ? "bg-accent font-semibold text-on-accent" : cell.inMonth && !cell.past ? "text-ink" : "text-faint",
          )}
        >
          {cell.day.day}
        </time>
        {cell.today && <span className="sr-only">, today</span>}
      </p>
      <ul className="grid gap-0.5">
        {lines.map((entry, index) => (
          <li key={index} className="min-w-0">
            <EntryLine entry={entry} />
          </li>
        ))}
        {!fits && (
          <li>
            <button type="button" onClick={() => onOpen(key)} className="h-6 w-full rounded-sm px-1.5 text-left font-medium text-soft hover:bg-hover hover:text-ink">
              {cell.entries.length - lines.length} more
              <span className="sr-only"> on {dayInWords(cell.start, timeZone)}</span>
            </button>
          </li>
        )}
      </ul>
    </td>
  );
}

/** The same month for phones: only days on which something happens, and what is over folded away. */
function Agenda({ shown }: { shown: Shown[] }) {
  const days = shown.filter((cell) => cell.inMonth && cell.entries.length > 0);
  const over = days.filter((cell) => cell.past);
  const open = days.filter((cell) => !cell.past);
  if (days.length === 0) return <p className="py-6 text-center text-sm text-soft md:hidden">Nothing in this month.</p>;
  return (
    <div className="grid gap-4 md:hidden">
      {open.length > 0 && over.length > 0 ? (
        <details>
          <summary className="rounded-md py-1.5 text-sm text-soft">Earlier this month</summary>
          <AgendaDays days={over} />
        </details>
      ) : (
        <AgendaDays days={over} />
      )}
      <AgendaDays days={open} />
    </div>
  );
}

function AgendaDays({ days }: { days: Shown[] }) {
  if (days.length === 0) return null;
  return (
    <ol className="grid gap-4">
      {days.map((cell) => (
        <li key={writeDay(cell.day)} className="grid gap-1.5">
          <h3 className={clsx("text-sm font-semibold", cell.today ? "text-accent-ink" : cell.past && "text-faint")}>
            {cell.today && "Today, "}
            {dayInWords(cell.start, timeZone)}
          </h3>
          <ul className="grid gap-1">
            {cell.entries.map((entry, index) => (
              <li key={index}>
                <EntryLine entry={entry} roomy />
              </li>
            ))}
          </ul>
        </li>
      ))}
    </ol>
  );
}

/** The run that comes next, of all. */
function Next({ schedules }: { schedules: Schedule[] }) {
  const next = schedules.filter((each) => each.next_at).sort((a, b) => a.next_at!.localeCompare(b.next_at!))[0];
  if (!next) return <p className="text-sm text-soft">Nothing is to come: every schedule is paused or done.</p>;
  const entry: Entry = { schedule: next, at: Date.parse(next.next_at!), count: 1, state: undefined, failed: 0 };
  return (
    <p className="text-sm text-soft">
      Next of all:{" "}
      <Link to="/schedules/$scheduleId" params={{ scheduleId: next.id }} className="text-accent-ink underline" title={entryInWords(entry)}>
        {next.name}
      </Link>
      , <Time at={next.next_at!} />
    </p>
  );
}
