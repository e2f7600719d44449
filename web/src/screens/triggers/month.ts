import type { Schemas } from "@/api/types";

import { cronBetween, readCron } from "./cron";
import { instantOf, isZone, wallAt } from "./zones";

export interface Month {
  year: number;
  /** From 1. */
  month: number;
}

export interface Day extends Month {
  day: number;
}

export function monthOf(instant: number, zone: string): Month {
  const { year, month } = wallAt(instant, zone);
  return { year, month };
}

/** "2026-11" → November 2026; undefined for anything else. */
export function readMonth(text: string | undefined): Month | undefined {
  const match = /^(\d{4})-(\d\d)$/.exec(text ?? "");
  const [year, month] = [Number(match?.[1]), Number(match?.[2])];
  return match && year >= 1970 && year < 3000 && month >= 1 && month <= 12 ? { year, month } : undefined;
}

export function writeMonth({ year, month }: Month): string {
  return `${year}-${String(month).padStart(2, "0")}`;
}

export function writeDay(day: Day): string {
  return `${writeMonth(day)}-${String(day.day).padStart(2, "0")}`;
}

export function dayOf(instant: number, zone: string): Day {
  const { year, month, day } = wallAt(instant, zone);
  return { year, month, day };
}

export function shiftMonth({ year, month }: Month, by: number): Month {
  const count = year * 12 + month - 1 + by;
  return { year: Math.floor(count / 12), month: (count % 12) + 1 };
}

/** The whole weeks that a month lies in. `firstWeekday`: 0 is Sunday, 1 Monday. */
export function weeksOf({ year, month }: Month, firstWeekday: number): Day[][] {
  const first = new Date(Date.UTC(year, month - 1, 1));
  const before = (first.getUTCDay() - firstWeekday + 7) % 7;
  const length = new Date(Date.UTC(year, month, 0)).getUTCDate();
  const weeks = Math.ceil((before + length) / 7);
  return Array.from({ length: weeks }, (_, week) => Array.from({ length: 7 }, (_, at) => dateOf(year, month, week * 7 + at - before + 1)));
}

function dateOf(year: number, month: number, day: number): Day {
  const date = new Date(Date.UTC(year, month - 1, day));
  return { year: date.getUTCFullYear(), month: date.getUTCMonth() + 1, day: date.getUTCDate() };
}

/** When each of the days begins in a zone, and when the last one ends. */
export function bordersOf(days: Day[], zone: string): number[] {
  const last = days[days.length - 1]!;
  const after = dateOf(last.year, last.month, last.day + 1);
  return [...days, after].map(({ year, month, day }) => instantOf(Date.UTC(year, month - 1, day), zone));
}

/** Which day an instant falls on; -1 for none of them. */
export function dayIndex(borders: number[], instant: number): number {
  if (instant < borders[0]! || instant >= borders[borders.length - 1]!) return -1;
  return borders.findIndex((border) => border > instant) - 1;
}

/** What a schedule will do on one day. */
export interface Planned {
  count: number;
  /** The first few of them. */
  times: number[];
}

/** More runs of one schedule on one day than this are told as a number. */
export const MOST_TIMES = 3;

type Timed = Pick<Schemas["ScheduleRead"], "kind" | "cron" | "timezone" | "every_seconds" | "at" | "next_at">;

/** What a schedule will do on each of the days, from its next run on. */
export function plannedOn(schedule: Timed, borders: number[]): Planned[] {
  const days = borders.slice(1).map((): Planned => ({ count: 0, times: [] }));
  if (!schedule.next_at) return days;
  const next = Date.parse(schedule.next_at);
  if (schedule.kind === "interval" && schedule.every_seconds) {
    return days.map((_, index) => steps(next, schedule.every_seconds! * 1000, borders[index]!, borders[index + 1]!));
  }
  for (const instant of instants(schedule, next, borders[borders.length - 1]!)) {
    const day = days[dayIndex(borders, instant)];
    if (!day) continue;
    day.count += 1;
    if (day.times.length < MOST_TIMES) day.times.push(instant);
  }
  return days;
}

function instants(schedule: Timed, next: number, end: number): number[] {
  const cron = schedule.cron ? readCron(schedule.cron) : undefined;
  if (!cron || !isZone(schedule.timezone)) return [next];
  return next < end ? cronBetween(cron, schedule.timezone, next, end) : [];
}

function steps(next: number, every: number, from: number, to: number): Planned {
  const first = next + Math.max(0, Math.ceil((from - next) / every)) * every;
  const count = Math.max(0, Math.ceil((to - first) / every));
  return { count, times: Array.from({ length: Math.min(count, MOST_TIMES) }, (_, step) => first + step * every) };
}
