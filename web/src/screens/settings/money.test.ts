import { describe, expect, it } from "vitest";

import { dollarsOf, microsOf } from "./money";

describe("money that is typed in", () => {
  it.each([
    ["25", 25_000_000],
    ["25.5", 25_500_000],
    ["$1,234.56", 1_234_560_000],
    [" .5 ", 500_000],
    ["0", 0],
    ["0.000001", 1],
    ["0.1", 100_000],
    ["1.000003", 1_000_003],
  ])("%s", (text, micros) => {
    expect(microsOf(text)).toBe(micros);
  });

  it.each(["", ".", "$", "-1", "1e3", "ten", "25,50", "1,23", "0.0000001", "1.2.3", "5 €", "99999999999"])("%s is none", (text) => {
    expect(microsOf(text)).toBeUndefined();
  });

  it.each([0, 1, 500_000, 25_000_000, 1_234_560_000, 3_300_000])("%d comes back as it was", (micros) => {
    expect(microsOf(dollarsOf(micros))).toBe(micros);
  });

  it("is written without what does not count", () => {
    expect(dollarsOf(25_000_000)).toBe("25");
    expect(dollarsOf(500_000)).toBe("0.50");
    expect(dollarsOf(1_250)).toBe("0.00125");
  });
});
