import type { Schemas } from "@/api/types";

import { daysBetween } from "./period";

export interface Day {
  day: string;
  calls: number;
  failed: number;
  /** Tokens in that were not read from or written to a cache. */
  fresh: number;
  cache: number;
  output: number;
  /** Millionths of a dollar; null if no price is known. */
  cost: number | null;
  /** Calls whose price is not known: the cost is then at least what is said. */
  unpriced: number;
}

const NOTHING = { calls: 0, failed: 0, fresh: 0, cache: 0, output: 0, cost: 0, unpriced: 0 };

/** A report by day with all its days, also those without a call. */
export function daysOf(report: Schemas["UsageReport"]): Day[] {
  const rows = new Map(report.rows.map((row) => [row.key, row]));
  return daysBetween(report.from, report.to).map((day) => {
    const row = rows.get(day);
    if (!row) return { day, ...NOTHING };
    const cache = row.cache_read_tokens + row.cache_write_tokens;
    return {
      day,
      calls: row.calls,
      failed: row.failed_calls,
      // Tokens in are counted with those of the cache.
      fresh: Math.max(0, row.input_tokens - cache),
      cache,
      output: row.output_tokens,
      cost: row.cost_micros,
      unpriced: row.unpriced_calls,
    };
  });
}
