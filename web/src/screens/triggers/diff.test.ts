import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { cronBetween, readCron } from "./cron";
test("as the server", () => {
  let bad = 0;
  for (const [c, z, f, t, r] of JSON.parse(readFileSync("/tmp/crons.json", "utf8"))) {
    const got = cronBetween(readCron(c)!, z, f * 1000, t * 1000).map((x) => x / 1000);
    const mine = got.length < 500 ? got : [got.length, got.reduce((a, b) => a + b, 0) % 1000003, ...got.slice(0, 50)];
    if (JSON.stringify(mine) !== JSON.stringify(r)) {
      bad += 1;
      if (bad < 12) console.log(c, z, new Date(f * 1000).toISOString(), mine.length, r.length, mine.filter((x) => !r.includes(x)).slice(0, 3).map((x) => new Date(x * 1000).toISOString()), r.filter((x: number) => !mine.includes(x)).slice(0, 3).map((x: number) => new Date(x * 1000).toISOString()));
    }
  }
  expect(bad).toBe(0);
}, 120000);
