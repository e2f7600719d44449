import { describe, expect, it } from "vitest";

import type { Schemas } from "@/api/types";

import { newTarget, newTiming, targetBody, targetChange, timingBody, timingChange, timingOf } from "./form";
import { readHeaders } from "./postAction";
import { readLocal, writeLocal } from "./zones";

describe("timingBody", () => {
  it("reads a moment in the chosen zone", () => {
    const form = { ...newTiming(), kind: "once" as const, zone: "America/New_York", at: "2026-07-01T09:00" };
    expect(timingBody(form)).toEqual({ at: "2026-07-01T13:00:00.000Z", timezone: "America/New_York" });
  });

  it("counts an interval in seconds, from a first run if there is one", () => {
    const form = { ...newTiming(), kind: "interval" as const, every: "2", unit: "3600" as const, zone: "UTC" };
    expect(timingBody(form)).toEqual({ every_seconds: 7200, timezone: "UTC" });
    expect(timingBody({ ...form, at: "2026-07-01T09:00" })).toMatchObject({ at: "2026-07-01T09:00:00.000Z" });
  });

  it("is not there while something is missing", () => {
    expect(timingBody({ ...newTiming(), cron: "  " })).toBeUndefined();
    expect(timingBody({ ...newTiming(), kind: "once" })).toBeUndefined();
    expect(timingBody({ ...newTiming(), kind: "interval", every: "x" })).toBeUndefined();
  });
});

it("sends no timing that was not changed", () => {
  const schedule = { kind: "interval", every_seconds: 5400, at: "2026-11-16T11:20:33.123Z", timezone: "UTC", cron: null } as Schemas["ScheduleRead"];
  const before = timingOf(schedule);
  expect([before.every, before.unit]).toEqual(["90", "60"]);
  expect(timingChange({ ...before }, before)).toEqual({});
  expect(timingChange({ ...before, every: "60" }, before)).toMatchObject({ every_seconds: 3600 });
});

it("keeps what else was said about a session", () => {
  const before = { team_id: null, prompt: null, session: { prompt: "A", model: "demo", gates: [{ kind: "tests" }] } };
  const form = { kind: "session" as const, teamId: "", prompt: "A", model: "demo" };
  expect(targetChange(form, before)).toEqual({});
  expect(targetChange({ ...form, prompt: "B " }, before)).toEqual({ session: { prompt: "B", model: "demo", gates: [{ kind: "tests" }] } });
  expect(targetBody({ ...newTarget(), teamId: "t", prompt: " Hi " })).toEqual({ team_id: "t", prompt: "Hi" });
});

it("writes local times as it reads them, except those that do not exist", () => {
  for (const text of ["2026-03-28T02:30", "2026-10-25T02:30", "2026-07-01T00:00"]) expect(writeLocal(readLocal(text, "Europe/Berlin")!, "Europe/Berlin")).toBe(text);
  expect(writeLocal(readLocal("2026-03-29T02:30", "Europe/Berlin")!, "Europe/Berlin")).toBe("2026-03-29T03:00");
  expect(readLocal("tomorrow", "UTC")).toBeUndefined();
});

it("reads headers line by line", () => {
  expect(readHeaders("X-A: 1\n\nX-B: a:b ")).toEqual({ "X-A": "1", "X-B": "a:b" });
  expect(readHeaders("nothing")).toBeUndefined();
});
