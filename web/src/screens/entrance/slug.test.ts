import { expect, test } from "vitest";

import { slugOf } from "./slug";

test.each([
  ["Acme Robotics", "acme-robotics"],
  ["  Größe & Söhne  ", "gro-e-sohne"],
  ["日本", ""],
  ["A".repeat(60), "a".repeat(40)],
])("%s → %s", (name, slug) => {
  expect(slugOf(name)).toBe(slug);
});
