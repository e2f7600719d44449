import { describe, expect, it } from "vitest";

import { breakdownOf, daysBetween, periodOf, rangeOf } from "./period";

describe("a period as days of a query", () => {
  const now = new Date("2026-03-02T23:30:00-05:00");

  it("ends today in UTC and includes both ends", () => {
    expect(rangeOf("7", now)).toEqual({ from: "2026-02-25", to: "2026-03-03" });
    expect(rangeOf("30", now)).toEqual({ from: "2026-02-02", to: "2026-03-03" });
    expect(rangeOf("90", now)).toEqual({ from: "2025-12-04", to: "2026-03-03" });
  });

  it("has as many days as it is called by", () => {
    for (const period of ["7", "30", "90"] as const) {
      const { from, to } = rangeOf(period, now);
      expect(daysBetween(from, to)).toHaveLength(Number(period));
    }
  });

  it("takes this month from its first day, in UTC", () => {
    expect(rangeOf("month", now)).toEqual({ from: "2026-03-01", to: "2026-03-03" });
    expect(rangeOf("month", new Date("2026-02-28T23:30:00-05:00"))).toEqual({ from: "2026-03-01", to: "2026-03-01" });
  });
});

describe("days", () => {
  it("go over the ends of months and leap days", () => {
    expect(daysBetween("2028-02-28", "2028-03-01")).toEqual(["2028-02-28", "2028-02-29", "2028-03-01"]);
  });

  it("are none when the end is before the beginning", () => {
    expect(daysBetween("2026-02-02", "2026-02-01")).toEqual([]);
  });
});

describe("what the address says", () => {
  it("falls back to what makes sense", () => {
    expect(periodOf(30)).toBe("30");
    expect(periodOf(31)).toBe("month");
    expect(periodOf(undefined)).toBe("month");
    expect(breakdownOf("team")).toBe("team");
    expect(breakdownOf("day")).toBe("model");
    expect(breakdownOf("nonsense")).toBe("model");
  });
});
