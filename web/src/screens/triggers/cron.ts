import { instantOf, instantsOf, numberOf, offsetAt, wallAt } from "./zones";

/** The nth of a weekday within its month, e.g. the first Monday; -1 is the last. */
export interface Nth {
  weekday: number;
  nth: number;
}

/** A cron expression, read. It keeps to what the server understands (schedules/times.py). */
export interface Cron {
  minutes: number[];
  hours: number[];
  days: number[];
  lastDay: boolean;
  lastWeekday: boolean;
  months: number[];
  weekdays: number[];
  nths: Nth[];
  /** Days and weekdays both have to fit; else one of them is enough. */
  bothDays: boolean;
  /** Follows the elapsed time when the clocks change, as jobs every hour or more often do. */
  elapsed: boolean;
  fields: [string, string, string, string, string];
}

const DAY = 86_400_000;
const WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
const MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];

interface Range {
  least: number;
  most: number;
  names?: string[];
}

const MINUTE: Range = { least: 0, most: 59 };
const HOUR: Range = { least: 0, most: 23 };
const MONTH_DAY: Range = { least: 1, most: 31 };
const MONTH: Range = { least: 1, most: 12, names: MONTHS };
const WEEKDAY: Range = { least: 0, most: 7, names: WEEKDAYS };

class NotCron extends Error {}

/** Reads five fields; undefined for what it does not understand, which the server may yet do. */
export function readCron(text: string): Cron | undefined {
  const fields = text.trim().toUpperCase().split(/\s+/);
  if (fields.length !== 5) return undefined;
  const [minute, hour, day, month, weekday] = fields as Cron["fields"];
  try {
    const days = day.split(",").filter((term) => term !== "L" && term !== "LW");
    const weekdays = weekday.split(",").filter((term) => !isNth(term));
    return {
      minutes: numbers(minute, MINUTE),
      hours: numbers(hour, HOUR),
      days: days.length ? numbers(days.join(","), MONTH_DAY) : [],
      lastDay: day.split(",").includes("L"),
      lastWeekday: day.split(",").includes("LW"),
      months: numbers(month, MONTH),
      weekdays: weekdays.length ? unique(numbers(weekdays.join(","), WEEKDAY).map((each) => each % 7)) : [],
      nths: weekday.split(",").filter(isNth).map(readNth),
      bothDays: day.startsWith("*") || weekday.startsWith("*"),
      elapsed: minute.startsWith("*") || hour.startsWith("*"),
      fields: [minute, hour, day, month, weekday],
    };
  } catch (error) {
    if (error instanceof NotCron) return undefined;
    throw error;
  }
}

function isNth(term: string): boolean {
  return /^\w+#\d$|^\dL$/.test(term);
}

function readNth(term: string): Nth {
  const last = term.endsWith("L");
  const [weekday, nth] = last ? [term.slice(0, -1), "0"] : (term.split("#") as [string, string]);
  if (!last && !(Number(nth) >= 1 && Number(nth) <= 5)) throw new NotCron();
  return { weekday: one(weekday, WEEKDAY) % 7, nth: last ? -1 : Number(nth) };
}

function numbers(field: string, range: Range): number[] {
  return unique(field.split(",").flatMap((term) => expand(term, range)));
}

function unique(list: number[]): number[] {
  return [...new Set(list)].sort((a, b) => a - b);
}

function expand(term: string, range: Range): number[] {
  const [spanned, step, more] = term.split("/") as [string, string | undefined, string | undefined];
  if (more !== undefined || (step !== undefined && !/^0*[1-9]\d*$/.test(step))) throw new NotCron();
  const [first, last] = ends(spanned, range, step !== undefined);
  const every = step === undefined ? 1 : Number(step);
  const found: number[] = [];
  for (let value = first; value <= last; value += every) found.push(value);
  return found;
}

function ends(term: string, range: Range, stepped: boolean): [number, number] {
  if (term === "*") return [range.least, range.most];
  const [from, to] = term.split("-") as [string, string | undefined];
  const first = one(from, range);
  const last = to === undefined ? first : one(to, range);
  if (last < first) throw new NotCron();
  // As the server has it: "5/10" and "5-5/10" go on to the end.
  return [first, stepped && first === last ? range.most : last];
}

function one(text: string, range: Range): number {
  const named = range.names?.indexOf(text) ?? -1;
  if (named >= 0) return named + range.least;
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (!(value >= range.least && value <= range.most)) throw new NotCron();
  return value;
}

/** Whether it fires on a day, given as midnight in UTC. */
function onDay(cron: Cron, midnight: number): boolean {
  const date = new Date(midnight);
  if (!cron.months.includes(date.getUTCMonth() + 1)) return false;
  const [byDay, byWeekday] = [fitsDay(cron, date), fitsWeekday(cron, date)];
  return cron.bothDays ? byDay && byWeekday : byDay || byWeekday;
}

function fitsDay(cron: Cron, date: Date): boolean {
  const [day, last] = [date.getUTCDate(), lastOf(date)];
  if (cron.days.includes(day)) return true;
  if (cron.lastDay && day === last.getUTCDate()) return true;
  const back = { 0: 2, 6: 1 }[last.getUTCDay()] ?? 0;
  return cron.lastWeekday && day === last.getUTCDate() - back;
}

function fitsWeekday(cron: Cron, date: Date): boolean {
  const [day, weekday] = [date.getUTCDate(), date.getUTCDay()];
  if (cron.weekdays.includes(weekday)) return true;
  return cron.nths.some((each) => {
    if (each.weekday !== weekday) return false;
    return each.nth === -1 ? day + 7 > lastOf(date).getUTCDate() : Math.ceil(day / 7) === each.nth;
  });
}

function lastOf(date: Date): Date {
  return new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 0));
}

/** The instants from `from` to before `to` at which it fires, in order. */
export function cronBetween(cron: Cron, zone: string, from: number, to: number): number[] {
  const found = new Set<number>();
  const first = Math.floor(numberOf(wallAt(from, zone)) / DAY) * DAY;
  const last = numberOf(wallAt(to, zone));
  for (let midnight = first; midnight <= last; midnight += DAY) {
    if (!onDay(cron, midnight)) continue;
    for (const instant of onClock(cron, zone, midnight)) {
      if (instant >= from && instant < to) found.add(instant);
    }
  }
  return [...found].sort((a, b) => a - b);
}

function onClock(cron: Cron, zone: string, midnight: number): number[] {
  const walls = cron.hours.flatMap((hour) => cron.minutes.map((minute) => midnight + (hour * 60 + minute) * 60_000));
  const offset = offsetAt(midnight - DAY, zone);
  // Asking the zone for every minute of a month is slow; the clocks change on two days a year.
  if (offset === offsetAt(midnight + 2 * DAY, zone)) return walls.map((wall) => wall - offset);
  return walls.flatMap((wall) => (cron.elapsed ? instantsOf(wall, zone) : [instantOf(wall, zone)]));
}
