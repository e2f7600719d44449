import type { Schemas } from "@/api/types";

import { bordersOf, type Day, dayIndex, MOST_TIMES, plannedOn } from "./month";
import type { Run, Schedule } from "./scheduleQueries";

/** One line of a day: a moment of a schedule, or many as a number. */
export interface Entry {
  schedule: Schedule;
  /** The moment, or the first of many. */
  at: number;
  count: number;
  /** How it ended; undefined for what is to come. */
  state: Schemas["RunRead"]["state"] | undefined;
  failed: number;
}

/** What happened and what is to come on each of the days, in order. */
export function entriesOn(days: Day[], zone: string, schedules: Schedule[], runs: Map<string, Run[]>): Entry[][] {
  const borders = bordersOf(days, zone);
  const entries = days.map((): Entry[] => []);
  for (const schedule of schedules) {
    happened(runs.get(schedule.id) ?? [], borders).forEach((those, index) => entries[index]!.push(...pastEntries(schedule, those)));
    plannedOn(schedule, borders).forEach((plan, index) => {
      const times = plan.count > MOST_TIMES ? plan.times.slice(0, 1) : plan.times;
      const count = plan.count > MOST_TIMES ? plan.count : 1;
      entries[index]!.push(...times.map((at): Entry => ({ schedule, at, count, state: undefined, failed: 0 })));
    });
  }
  return entries.map((day) => day.sort((a, b) => a.at - b.at || a.schedule.name.localeCompare(b.schedule.name)));
}

function happened(runs: Run[], borders: number[]): Run[][] {
  const days = borders.slice(1).map((): Run[] => []);
  for (const run of runs) days[dayIndex(borders, Date.parse(run.due_at))]?.push(run);
  return days;
}

function pastEntries(schedule: Schedule, runs: Run[]): Entry[] {
  const failed = runs.filter(isBad).length;
  if (runs.length <= MOST_TIMES) {
    return runs.map((run): Entry => ({ schedule, at: Date.parse(run.due_at), count: 1, state: run.state, failed: isBad(run) ? 1 : 0 }));
  }
  const at = Math.min(...runs.map((run) => Date.parse(run.due_at)));
  return [{ schedule, at, count: runs.length, state: failed > 0 ? "failed" : runs[0]!.state, failed }];
}

function isBad(run: Run): boolean {
  return run.state === "failed" || run.state === "uncertain";
}

/** The weekday that weeks begin with where the reader lives: 0 is Sunday, 1 Monday. */
export function firstWeekday(language: string): number {
  const locale = new Intl.Locale(language) as Intl.Locale & { getWeekInfo?: () => { firstDay: number }; weekInfo?: { firstDay: number } };
  return (locale.getWeekInfo?.().firstDay ?? locale.weekInfo?.firstDay ?? 1) % 7;
}
