export const PERIODS = [
  { value: "7", name: "7 days" },
  { value: "30", name: "30 days" },
  { value: "90", name: "90 days" },
  { value: "month", name: "This month" },
] as const;

export type Period = (typeof PERIODS)[number]["value"];

export const BREAKDOWNS = ["model", "provider", "team", "session"] as const;

export type Breakdown = (typeof BREAKDOWNS)[number];

/** The period that `?days=` of an address means; without one, or with one not offered: this month. */
export function periodOf(days: number | undefined): Period {
  return PERIODS.find((each) => each.value === String(days))?.value ?? "month";
}

/** The breakdown that `?by=` of an address means. */
export function breakdownOf(by: string | undefined): Breakdown {
  return BREAKDOWNS.find((each) => each === by) ?? "model";
}

/** The first and the last day, both included. The server counts days in UTC, so this does too. */
export function rangeOf(period: Period, now: Date = new Date()): { from: string; to: string } {
  const to = dayOf(now);
  if (period === "month") return { from: `${to.slice(0, 8)}01`, to };
  const first = new Date(now);
  first.setUTCDate(first.getUTCDate() - (Number(period) - 1));
  return { from: dayOf(first), to };
}

function dayOf(at: Date): string {
  return at.toISOString().slice(0, 10);
}

/** Every day from `from` to `to`, also those on which nothing happened. */
export function daysBetween(from: string, to: string): string[] {
  const days: string[] = [];
  const day = new Date(`${from}T00:00:00Z`);
  while (dayOf(day) <= to) {
    days.push(dayOf(day));
    day.setUTCDate(day.getUTCDate() + 1);
  }
  return days;
}

const short = new Intl.DateTimeFormat("en-US", { month: "short", day: "numeric", timeZone: "UTC" });
const long = new Intl.DateTimeFormat("en-US", { weekday: "short", month: "short", day: "numeric", year: "numeric", timeZone: "UTC" });

/** "Nov 3". */
export function shortDay(day: string): string {
  return short.format(new Date(`${day}T00:00:00Z`));
}

/** "Tue, Nov 3, 2026". */
export function longDay(day: string): string {
  return long.format(new Date(`${day}T00:00:00Z`));
}
