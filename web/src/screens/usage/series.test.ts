import { describe, expect, it } from "vitest";

import type { Schemas } from "@/api/types";

import { formatCost } from "./cost";
import { daysOf } from "./series";

const row = {
  key: "2026-02-02",
  calls: 3,
  failed_calls: 1,
  unpriced_calls: 0,
  input_tokens: 100,
  cache_read_tokens: 30,
  cache_write_tokens: 20,
  output_tokens: 7,
  reasoning_tokens: 0,
  cost_micros: 5,
  rated_micros: 6,
};
const report: Schemas["UsageReport"] = {
  from: "2026-02-01",
  to: "2026-02-03",
  by: "day",
  rows: [row],
  truncated: false,
  totals: { ...row },
  rated: null,
  unknown_prices: false,
};

describe("days of a report", () => {
  it("are all there, also those without a call", () => {
    expect(daysOf(report).map((day) => [day.day, day.calls, day.cost])).toEqual([
      ["2026-02-01", 0, 0],
      ["2026-02-02", 3, 5],
      ["2026-02-03", 0, 0],
    ]);
  });

  it("do not count tokens of the cache twice", () => {
    expect(daysOf(report)[1]).toMatchObject({ fresh: 50, cache: 50, output: 7 });
  });

  it("keep an unknown cost unknown", () => {
    const unknown = { ...report, rows: [{ ...row, cost_micros: null, unpriced_calls: 3 }] };
    expect(daysOf(unknown)[1]!.cost).toBeNull();
  });
});

describe("a cost", () => {
  it("says when it is not all", () => {
    expect(formatCost(1_500_000, 0)).toBe("$1.50");
    expect(formatCost(1_500_000, 2)).toBe("at least $1.50");
    expect(formatCost(null, 2)).toBe("unknown");
  });
});
