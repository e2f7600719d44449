import { expect, test } from "vitest";

import { NODE, place } from "./layout";

test("a node stands to the right of all it needs, and none lies upon another", () => {
  const placed = place({ a: [], b: ["a"], c: ["a"], d: ["b", "c"] });
  const at = Object.fromEntries(placed.map((each) => [each.id, each]));
  expect(at.b!.x).toBeGreaterThan(at.a!.x + NODE.width);
  expect(at.d!.x).toBeGreaterThan(at.c!.x + NODE.width);
  expect(Math.abs(at.b!.y - at.c!.y)).toBeGreaterThanOrEqual(NODE.height);
});

test("a need that is not a node of the chain is left out", () => {
  expect(place({ a: ["gone"] })).toHaveLength(1);
});
