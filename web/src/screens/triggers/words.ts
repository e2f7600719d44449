import type { Schemas } from "@/api/types";
import { plural } from "@/lib/format";

import { type Cron, readCron } from "./cron";
import { isZone, numberOf, offsetAt, wallAt } from "./zones";

export type Timed = Pick<Schemas["ScheduleRead"], "kind" | "cron" | "timezone" | "every_seconds" | "at" | "next_at">;

const WEEKDAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
const NTHS = ["", "first", "second", "third", "fourth", "fifth"];
const MOST_NAMED = 4;

/** When a schedule fires, as one would say it: "Every day at 09:00". */
export function timingInWords(schedule: Timed, zone: string): string {
  if (schedule.kind === "interval" && schedule.every_seconds) return capital(`every ${interval(schedule.every_seconds)}`);
  if (schedule.kind === "once" && schedule.at) return `Once, on ${dayAndClock(Date.parse(schedule.at), zone)}`;
  return cronInWords(schedule.cron ?? "");
}

/** What to add for readers elsewhere: in which zone that is, and when by their own clock. */
export function zoneInWords(schedule: Timed, zone: string): { where: string; yours: string | undefined } | undefined {
  if (schedule.kind !== "cron" || schedule.timezone === zone || !isZone(schedule.timezone)) return undefined;
  const at = schedule.next_at ? Date.parse(schedule.next_at) : Date.now();
  const shift = offsetAt(at, zone) - offsetAt(at, schedule.timezone);
  return shift === 0 ? undefined : { where: schedule.timezone, yours: shifted(schedule.cron ?? "", shift) };
}

function shifted(text: string, shift: number): string | undefined {
  const times = clockTimes(readCron(text));
  if (!times) return undefined;
  const day = 24 * 60;
  return and(times.map((minutes) => clock((((minutes + shift / 60_000) % day) + day) % day)));
}

/** "Every weekday at 09:00" for `0 9 * * 1-5`; the expression itself where words would be many. */
export function cronInWords(text: string): string {
  const cron = readCron(text);
  if (!cron) return `By cron: ${text}`;
  const [when, days] = [whenInWords(cron), daysInWords(cron)];
  if (!when || !days) return `By cron: ${text}`;
  const often = when.startsWith("every");
  if (often) return capital(days === "every day" ? when : `${when}, ${days}`);
  return capital(`${days} ${when}`);
}

function whenInWords(cron: Cron): string | undefined {
  const [minute, hour] = cron.fields;
  const times = clockTimes(cron);
  if (times) return `at ${and(times.map(clock))}`;
  if (minute === "*" && hour === "*") return "every minute";
  if (hour === "*" && regular(cron.minutes, 60)) return `every ${interval((60 / cron.minutes.length) * 60)}`;
  if (cron.minutes.length !== 1) return undefined;
  const past = cron.minutes[0] === 0 ? "" : ` at ${cron.minutes[0]} past`;
  if (hour === "*") return `every hour${past || " on the hour"}`;
  return regular(cron.hours, 24) ? `every ${interval((24 / cron.hours.length) * 3600)}${past}` : undefined;
}

/** The times of a day in minutes, if they are few. */
function clockTimes(cron: Cron | undefined): number[] | undefined {
  if (!cron || cron.minutes.length * cron.hours.length > MOST_NAMED) return undefined;
  return cron.hours.flatMap((hour) => cron.minutes.map((minute) => hour * 60 + minute));
}

/** Whether the values come at equal distances all around, beginning with 0. */
function regular(values: number[], all: number): boolean {
  const step = all / values.length;
  return values.length > 1 && values.every((value, index) => value === index * step);
}

function daysInWords(cron: Cron): string | undefined {
  const [, , day, month, weekday] = cron.fields;
  const months = month === "*" ? "every month" : monthsInWords(cron.months);
  const byDay = day === "*" ? undefined : monthDays(cron);
  const byWeekday = weekday === "*" ? undefined : weekdays(cron);
  if (day !== "*" && !byDay) return undefined;
  if (weekday !== "*" && !byWeekday) return undefined;
  // Words for what has to be both at once (`*/2 * 1-5`) would be read wrongly.
  if (byDay && byWeekday && cron.bothDays) return undefined;
  const inMonths = month === "*" ? "" : ` in ${months}`;
  if (byDay && byWeekday) return `${byDay} of ${months} and ${byWeekday}${inMonths}`;
  if (byDay) return `${byDay} of ${months}`;
  if (!byWeekday) return `every day${inMonths}`;
  return cron.nths.length > 0 ? `${byWeekday} of ${months}` : `${byWeekday}${inMonths}`;
}

function monthsInWords(months: number[]): string {
  return and(months.map((month) => MONTHS[month - 1]!));
}

function monthDays(cron: Cron): string | undefined {
  if (cron.days.length > MOST_NAMED) return undefined;
  const names = cron.days.map(ordinal);
  if (cron.lastDay) names.push("last day");
  if (cron.lastWeekday) names.push("last weekday");
  return `on the ${and(names)}`;
}

function weekdays(cron: Cron): string | undefined {
  if (cron.nths.length > 0) {
    if (cron.weekdays.length > 0) return undefined;
    return `on the ${and(cron.nths.map(({ weekday, nth }) => `${nth === -1 ? "last" : NTHS[nth]} ${WEEKDAYS[weekday]}`))}`;
  }
  if (cron.weekdays.join() === "1,2,3,4,5") return "every weekday";
  if (cron.weekdays.join() === "0,6") return "every Saturday and Sunday";
  return `every ${and(cron.weekdays.map((weekday) => WEEKDAYS[weekday]!))}`;
}

function ordinal(number: number): string {
  const teen = number > 10 && number < 14;
  const ending = teen ? "th" : ({ 1: "st", 2: "nd", 3: "rd" }[number % 10] ?? "th");
  return `${number}${ending}`;
}

const UNITS: [number, string][] = [
  [86_400, "day"],
  [3_600, "hour"],
  [60, "minute"],
  [1, "second"],
];

/** "15 minutes", "hour", "1 hour 30 minutes": what follows "every". */
export function interval(seconds: number): string {
  const parts: [number, string][] = [];
  let rest = seconds;
  for (const [size, unit] of UNITS) {
    if (rest >= size) parts.push([Math.floor(rest / size), unit]);
    rest %= size;
  }
  const [only] = parts;
  // "Every day" sounds like a time of day; an interval only counts.
  if (parts.length === 1 && only![0] === 1) return only![1] === "day" ? "24 hours" : only![1];
  return parts.map(([count, unit]) => plural(count, unit)).join(" ");
}

function clock(minutes: number): string {
  return `${String(Math.floor(minutes / 60)).padStart(2, "0")}:${String(minutes % 60).padStart(2, "0")}`;
}

/** "09:00", by the clocks of a zone. */
export function clockAt(instant: number, zone: string): string {
  const { hour, minute } = wallAt(instant, zone);
  return clock(hour * 60 + minute);
}

/** "Monday, November 16", with the year unless it is this one. */
export function dayInWords(instant: number, zone: string, now = Date.now()): string {
  const wall = wallAt(instant, zone);
  const weekday = WEEKDAYS[new Date(numberOf(wall)).getUTCDay()]!;
  const year = wall.year === wallAt(now, zone).year ? "" : `, ${wall.year}`;
  return `${weekday}, ${MONTHS[wall.month - 1]} ${wall.day}${year}`;
}

export function dayAndClock(instant: number, zone: string): string {
  return `${dayInWords(instant, zone)} at ${clockAt(instant, zone)}`;
}

export function monthInWords(year: number, month: number): string {
  return `${MONTHS[month - 1]} ${year}`;
}

function and(parts: string[]): string {
  return parts.length < 2 ? parts.join("") : `${parts.slice(0, -1).join(", ")} and ${parts[parts.length - 1]}`;
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** What becomes of runs that were missed while nothing ran. */
export const MISSED: Record<Schemas["ScheduleRead"]["missed"], { name: string; words: string }> = {
  once: { name: "Make up for the newest", words: "After a standstill it runs once, for the newest moment that was missed." },
  skip: { name: "Skip them", words: "What was missed is not made up for; the history notes it." },
  all: { name: "Make up for all", words: "After a standstill it runs once for each moment that was missed, the newest 100 at most." },
};
