import { describe, expect, it } from "vitest";

import { cronBetween, readCron } from "./cron";

const at = (text: string) => Date.parse(text);
const times = (cron: string, zone: string, from: string, to: string) =>
  cronBetween(readCron(cron)!, zone, at(from), at(to)).map((instant) => new Date(instant).toISOString().slice(0, 16));

describe("readCron", () => {
  it("reads lists, ranges, steps and names", () => {
    expect(readCron("0,30 8-10 1/10 JAN,jul mon-fri")).toMatchObject({
      minutes: [0, 30],
      hours: [8, 9, 10],
      days: [1, 11, 21, 31],
      months: [1, 7],
      weekdays: [1, 2, 3, 4, 5],
      bothDays: false,
    });
  });

  it("knows Sunday as 0 and as 7", () => {
    expect(readCron("0 0 * * 7")!.weekdays).toEqual([0]);
    expect(readCron("0 0 * * 5-7")!.weekdays).toEqual([0, 5, 6]);
  });

  it.each(["", "* * * *", "* * * * * *", "60 * * * *", "0 24 * * *", "5-1 * * * *", "*/0 * * * *", "x * * * *", "0 0 * * 1#6", "0 0 32 * *"])(
    "does not read %j",
    (text) => expect(readCron(text)).toBeUndefined(),
  );
});

// What the server counts for the same (schedules/times.py).
describe("cronBetween", () => {
  it("reads the time in its zone", () => {
    expect(times("0 9 * * 1-5", "Europe/Berlin", "2026-11-13T00:00Z", "2026-11-18T00:00Z")).toEqual(["2026-11-13T08:00", "2026-11-16T08:00", "2026-11-17T08:00"]);
  });

  it("takes the end for excluded and the beginning for included", () => {
    expect(times("0 * * * *", "UTC", "2026-01-01T01:00Z", "2026-01-01T03:00Z")).toEqual(["2026-01-01T01:00", "2026-01-01T02:00"]);
  });

  it("does what falls into the missing hour right after it, once", () => {
    expect(times("15,30 2 * * *", "Europe/Berlin", "2026-03-28T12:00Z", "2026-03-30T12:00Z")).toEqual(["2026-03-29T01:00", "2026-03-30T00:15", "2026-03-30T00:30"]);
  });

  it("does what falls into the hour that comes twice once", () => {
    expect(times("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00Z", "2026-10-26T12:00Z")).toEqual(["2026-10-25T00:30", "2026-10-26T01:30"]);
  });

  it("follows the elapsed time for jobs every hour or more often", () => {
    expect(times("0 * * * *", "Europe/Berlin", "2026-10-24T23:30Z", "2026-10-25T03:30Z")).toEqual(["2026-10-25T00:00", "2026-10-25T01:00", "2026-10-25T02:00", "2026-10-25T03:00"]);
    expect(times("30 * * * *", "Europe/Berlin", "2026-03-29T00:00Z", "2026-03-29T02:00Z")).toEqual(["2026-03-29T00:30", "2026-03-29T01:30"]);
  });

  it("takes days and weekdays together for either of them, unless one is a star", () => {
    expect(times("0 0 13 * 5", "UTC", "2026-11-01T00:00Z", "2026-11-15T00:00Z")).toEqual(["2026-11-06T00:00", "2026-11-13T00:00"]);
    expect(times("0 0 */2 * 1", "UTC", "2026-11-01T00:00Z", "2026-11-24T00:00Z")).toEqual(["2026-11-09T00:00", "2026-11-23T00:00"]);
  });

  it("knows the last day, the last weekday and the nth of a weekday", () => {
    expect(times("0 0 L 2 *", "UTC", "2028-01-01T00:00Z", "2029-01-01T00:00Z")).toEqual(["2028-02-29T00:00"]);
    expect(times("0 0 LW 10 *", "UTC", "2026-01-01T00:00Z", "2027-01-01T00:00Z")).toEqual(["2026-10-30T00:00"]);
    expect(times("0 0 * 11 MON#1,5L", "UTC", "2026-01-01T00:00Z", "2027-01-01T00:00Z")).toEqual(["2026-11-02T00:00", "2026-11-27T00:00"]);
  });
});
