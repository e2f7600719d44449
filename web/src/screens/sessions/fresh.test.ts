// @vitest-environment jsdom
import { expect, test } from "vitest";

import type { Schemas } from "@/api/types";

import { merged } from "./fresh";

const session = (id: string, state = "RUNNING") => ({ id, state }) as Schemas["SessionRead"];
const list = (...pages: Schemas["SessionRead"][][]) => ({
  pages: pages.map((items) => ({ items, next_cursor: null })),
  pageParams: pages.map(() => undefined),
});
const names = (data: ReturnType<typeof list>) => data.pages.flatMap((page) => page.items.map((each) => `${each.id} ${each.state}`));
const always = () => true;

test("new sessions come first, and those they push off the page are not lost", () => {
  const after = merged(list([session("c"), session("b")], [session("a")]), [session("d"), session("c")], [], always);
  expect(names(after as never)).toEqual(["d RUNNING", "c RUNNING", "b RUNNING", "a RUNNING"]);
});

test("a changed session on a later page is changed in its place", () => {
  const after = merged(list([session("b")], [session("a")]), [session("b")], [session("a", "FAILED")], always);
  expect(names(after as never)).toEqual(["b RUNNING", "a FAILED"]);
});

test("what does not fit the filter any more leaves", () => {
  const after = merged(list([session("b")], [session("a")]), [session("b")], [session("a", "COMPLETE")], (each) => each.state === "RUNNING");
  expect(names(after as never)).toEqual(["b RUNNING"]);
});

test("none is there twice", () => {
  const after = merged(list([session("b")], [session("a")]), [session("b"), session("a")], [], always);
  expect(names(after as never)).toEqual(["b RUNNING", "a RUNNING"]);
});
