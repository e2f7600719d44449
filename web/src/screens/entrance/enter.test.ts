import { expect, test } from "vitest";

import { ownPlace } from "./enter";

test.each([
  ["/sessions?state=RUNNING", "/sessions?state=RUNNING"],
  [undefined, "/"],
  ["https://elsewhere.example/", "/"],
  ["//elsewhere.example/", "/"],
  ["/\\elsewhere.example", "/"],
  ["javascript:alert(1)", "/"],
])("after signing in, %s leads to %s", (next, place) => {
  expect(ownPlace(next)).toBe(place);
});
