import { expect, test } from "vitest";

import { tellEvent } from "./sentences";

test("an event is told as a sentence that leads to what it is about", () => {
  expect(tellEvent({ type: "team.status_changed", data: { team_id: "t1", status: "crash_loop" } })).toEqual({
    text: "A team is crash loop now",
    link: { to: "/teams/$teamId", params: { teamId: "t1" } },
  });
});

test("progress is not told, and a field that is missing is not shown as undefined", () => {
  expect(tellEvent({ type: "session.progress", data: {} })).toBeUndefined();
  expect(tellEvent({ type: "member.invited", data: {} })?.text).toBe("something was invited");
});
