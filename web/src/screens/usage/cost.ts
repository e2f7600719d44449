import { formatMoney } from "@/lib/format";

/** What something cost, without pretending: unknown prices make it "at least" or "unknown". */
export function formatCost(micros: number | null | undefined, unpriced: number): string {
  if (micros === null || micros === undefined) return "unknown";
  return unpriced > 0 ? `at least ${formatMoney(micros)}` : formatMoney(micros);
}
