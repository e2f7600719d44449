import { describe, expect, it } from "vitest";

import { cronInWords, interval, type Timed, timingInWords, zoneInWords } from "./words";

const timed = (change: Partial<Timed>): Timed => ({ kind: "cron", cron: null, timezone: "UTC", every_seconds: null, at: null, next_at: null, ...change });

describe("cronInWords", () => {
  it.each([
    ["0 9 * * *", "Every day at 09:00"],
    ["0 9 * * 1-5", "Every weekday at 09:00"],
    ["30 9,17 * * *", "Every day at 09:30 and 17:30"],
    ["0 8 * * MON,THU", "Every Monday and Thursday at 08:00"],
    ["0 8 * * 0,6", "Every Saturday and Sunday at 08:00"],
    ["0 8 * * 7", "Every Sunday at 08:00"],
    ["* * * * *", "Every minute"],
    ["*/5 * * * *", "Every 5 minutes"],
    ["0,30 * * * *", "Every 30 minutes"],
    ["0 * * * *", "Every hour on the hour"],
    ["15 * * * *", "Every hour at 15 past"],
    ["0 */6 * * *", "Every day at 00:00, 06:00, 12:00 and 18:00"],
    ["0 */2 * * *", "Every 2 hours"],
    ["*/10 * * * 1-5", "Every 10 minutes, every weekday"],
    ["0 9 1 * *", "On the 1st of every month at 09:00"],
    ["0 9 1,22 1,7 *", "On the 1st and 22nd of January and July at 09:00"],
    ["0 18 L * *", "On the last day of every month at 18:00"],
    ["0 9 * * MON#1", "On the first Monday of every month at 09:00"],
    ["0 9 * * 5L", "On the last Friday of every month at 09:00"],
    ["0 9 13 * 5", "On the 13th of every month and every Friday at 09:00"],
    ["0 9 * 12 *", "Every day in December at 09:00"],
  ])("%s: %s", (cron, words) => expect(cronInWords(cron)).toBe(words));

  it.each(["3-40/7 * * * *", "0 9 */2 * 1", "0 9 1-20 * *", "*/7 * * * *", "not a cron"])("shows %j itself, where words would mislead", (cron) =>
    expect(cronInWords(cron)).toBe(`By cron: ${cron}`),
  );
});

it("tells intervals", () => {
  expect([10, 60, 900, 3600, 5400, 86_400, 172_800].map(interval)).toEqual(["10 seconds", "minute", "15 minutes", "hour", "1 hour 30 minutes", "24 hours", "2 days"]);
  expect(timingInWords(timed({ kind: "interval", every_seconds: 300 }), "UTC")).toBe("Every 5 minutes");
});

it("tells a single moment in the reader's zone", () => {
  const once = timed({ kind: "once", at: "2031-05-31T07:00:00Z" });
  expect(timingInWords(once, "Europe/Berlin")).toBe("Once, on Saturday, May 31, 2031 at 09:00");
});

describe("zoneInWords", () => {
  const daily = timed({ cron: "0 9,23 * * *", timezone: "Europe/Berlin", next_at: "2026-11-17T08:00:00Z" });

  it("adds the reader's time where the clocks differ, also past midnight", () => {
    expect(zoneInWords(daily, "UTC")).toEqual({ where: "Europe/Berlin", yours: "08:00 and 22:00" });
    expect(zoneInWords(daily, "Asia/Kolkata")).toEqual({ where: "Europe/Berlin", yours: "13:30 and 03:30" });
  });

  it("counts with the clocks at the next run", () => {
    expect(zoneInWords({ ...daily, next_at: "2026-07-17T07:00:00Z" }, "UTC")?.yours).toBe("07:00 and 21:00");
  });

  it("is silent where the clocks show the same", () => {
    expect(zoneInWords(daily, "Europe/Berlin")).toBeUndefined();
    expect(zoneInWords(daily, "Europe/Paris")).toBeUndefined();
  });

  it("names only the zone for what fires often", () => {
    expect(zoneInWords({ ...daily, cron: "*/5 * * * *" }, "UTC")).toEqual({ where: "Europe/Berlin", yours: undefined });
  });
});
