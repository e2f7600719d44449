import { describe, expect, it } from "vitest";

import { bordersOf, dayIndex, plannedOn, readMonth, shiftMonth, weeksOf, writeDay, writeMonth } from "./month";

const at = (text: string) => Date.parse(text);
const hours = (borders: number[]) => borders.slice(1).map((border, index) => (border - borders[index]!) / 3_600_000);

describe("weeksOf", () => {
  it("fills the month up to whole weeks", () => {
    const weeks = weeksOf({ year: 2026, month: 11 }, 1);
    expect(weeks).toHaveLength(6);
    expect(weeks.every((week) => week.length === 7)).toBe(true);
    expect(writeDay(weeks[0]![0]!)).toBe("2026-10-26");
    expect(writeDay(weeks[5]![6]!)).toBe("2026-12-06");
  });

  it("begins on the reader's first weekday", () => {
    expect(writeDay(weeksOf({ year: 2026, month: 11 }, 0)[0]![0]!)).toBe("2026-11-01");
  });

  it("needs four weeks for a February that begins with one", () => {
    expect(weeksOf({ year: 2027, month: 2 }, 1)).toHaveLength(4);
  });
});

it("reads and shifts months", () => {
  expect(readMonth("2026-11")).toEqual({ year: 2026, month: 11 });
  expect(["2026-13", "2026-00", "26-11", "nonsense", undefined].map(readMonth)).toEqual([undefined, undefined, undefined, undefined, undefined]);
  expect([-11, -1, 1, 2].map((by) => writeMonth(shiftMonth({ year: 2026, month: 11 }, by)))).toEqual(["2025-12", "2026-10", "2026-12", "2027-01"]);
});

describe("bordersOf", () => {
  it("gives the days on which the clocks change 23 and 25 hours", () => {
    const days = (month: number, first: number) => [0, 1, 2].map((more) => ({ year: 2026, month, day: first + more }));
    expect(hours(bordersOf(days(3, 28), "Europe/Berlin"))).toEqual([24, 23, 24]);
    expect(hours(bordersOf(days(10, 24), "Europe/Berlin"))).toEqual([24, 25, 24]);
  });

  it("begins a day whose midnight does not exist right after the gap", () => {
    // In Santiago the clocks went from 24:00 to 01:00 on 6 September 2026.
    const [start] = bordersOf([{ year: 2026, month: 9, day: 6 }], "America/Santiago");
    expect(new Date(start!).toISOString()).toBe("2026-09-06T04:00:00.000Z");
  });

  it("puts instants on the reader's day", () => {
    const borders = bordersOf([{ year: 2026, month: 11, day: 16 }, { year: 2026, month: 11, day: 17 }], "America/New_York");
    expect(["2026-11-16T04:59Z", "2026-11-16T05:00Z", "2026-11-17T04:59Z", "2026-11-17T05:00Z", "2026-11-18T05:00Z"].map((text) => dayIndex(borders, at(text)))).toEqual([-1, 0, 0, 1, -1]);
  });
});

describe("plannedOn", () => {
  const base = { timezone: "UTC", cron: null, every_seconds: null, at: null };
  const days = [15, 16, 17, 18].map((day) => ({ year: 2026, month: 11, day }));
  const borders = bordersOf(days, "UTC");

  it("counts an interval from its next run on, and names the first few", () => {
    const planned = plannedOn({ ...base, kind: "interval", every_seconds: 300, next_at: "2026-11-16T23:50:00Z" }, borders);
    expect(planned.map(({ count }) => count)).toEqual([0, 2, 288, 288]);
    expect(planned[2]!.times.map((time) => new Date(time).toISOString().slice(11, 16))).toEqual(["00:00", "00:05", "00:10"]);
  });

  it("puts a cron of another zone on the reader's days", () => {
    const planned = plannedOn({ ...base, kind: "cron", cron: "30 23 * * *", timezone: "America/New_York", next_at: "2026-11-16T04:30:00Z" }, borders);
    expect(planned.map(({ count }) => count)).toEqual([0, 1, 1, 1]);
  });

  it("shows the next run of what it cannot read", () => {
    const planned = plannedOn({ ...base, kind: "cron", cron: "?", next_at: "2026-11-17T10:00:00Z" }, borders);
    expect(planned.map(({ count }) => count)).toEqual([0, 0, 1, 0]);
  });

  it("has nothing for what is paused, and one for a single moment", () => {
    expect(plannedOn({ ...base, kind: "cron", cron: "0 9 * * *", next_at: null }, borders).every(({ count }) => count === 0)).toBe(true);
    const once = plannedOn({ ...base, kind: "once", at: "2026-11-18T10:00:00Z", next_at: "2026-11-18T10:00:00Z" }, borders);
    expect(once.map(({ count }) => count)).toEqual([0, 0, 0, 1]);
  });
});
