const MOST = 1_000_000_000;
const SHAPE = /^\$?\s*(\d{1,3}(?:,\d{3})+|\d+)?(?:\.(\d{1,6}))?$/;

/** Dollars as people write them, in millionths; undefined if that is no amount of money. */
export function microsOf(text: string): number | undefined {
  const found = SHAPE.exec(text.trim());
  if (!found || (found[1] === undefined && found[2] === undefined)) return undefined;
  const dollars = Number((found[1] ?? "0").replaceAll(",", ""));
  if (dollars > MOST) return undefined;
  // Not a multiplication of fractions: 0.1 * 3 is not 0.3.
  return dollars * 1_000_000 + Number((found[2] ?? "").padEnd(6, "0"));
}

/** An amount as it is put into a field: "25", "0.5". */
export function dollarsOf(micros: number): string {
  const cents = (micros % 1_000_000).toString().padStart(6, "0").replace(/0+$/, "");
  const whole = Math.floor(micros / 1_000_000).toString();
  return cents === "" ? whole : `${whole}.${cents.padEnd(2, "0")}`;
}
