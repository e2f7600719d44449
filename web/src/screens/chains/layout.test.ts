import { expect, test } from "vitest";

import { draw, NODE, pathThrough } from "./layout";

test("a node stands to the right of all it needs, and none lies upon another", () => {
  const { nodes } = draw({ a: [], b: ["a"], c: ["a"], d: ["b", "c"] });
  const at = Object.fromEntries(nodes.map((each) => [each.id, each]));
  expect(at.b!.x).toBeGreaterThan(at.a!.x + NODE.width);
  expect(at.d!.x).toBeGreaterThan(at.c!.x + NODE.width);
  expect(Math.abs(at.b!.y - at.c!.y)).toBeGreaterThanOrEqual(NODE.height);
});

test("a line past a node does not go behind it", () => {
  const { nodes, edges } = draw({ a: [], b: ["a"], c: ["a", "b"] });
  const b = nodes.find((node) => node.id === "b")!;
  const past = edges.find((edge) => edge.from === "a" && edge.to === "c")!;
  const beside = past.points.filter((point) => point.x > b.x && point.x < b.x + NODE.width);
  expect(beside.length).toBeGreaterThan(0);
  for (const point of beside) expect(point.y < b.y || point.y > b.y + NODE.height).toBe(true);
});

test("a need that is not a node of the chain is left out", () => {
  expect(draw({ a: ["gone"] })).toMatchObject({ nodes: [{ id: "a" }], edges: [] });
});

test("a path goes through all its points", () => {
  expect(pathThrough([{ x: 0, y: 0 }, { x: 10, y: 4 }])).toBe("M0,0 C5,0 5,4 10,4");
  expect(pathThrough([])).toBe("");
});
