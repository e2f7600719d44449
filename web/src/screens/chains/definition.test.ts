import { expect, test } from "vitest";

import { withValues } from "./definition";

test("values are put below the definition, quoted so that nothing in them is taken for YAML", () => {
  expect(withValues("name: a\n\n", { topic: 'rain: "x"\n- y' })).toBe('name: a\nvalues: {"topic":"rain: \\"x\\"\\n- y"}\n');
});

test("a definition without values stays as it is", () => {
  expect(withValues("name: a\n", { topic: "" })).toBe("name: a\n");
});
