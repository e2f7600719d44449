import { describe, expect, it } from "vitest";

import { newPostAction, postActionBody } from "./postAction";

describe("postActionBody", () => {
  it("takes the template away when it was emptied", () => {
    expect(postActionBody({ ...newPostAction(), body: " \n" }).body).toBeNull();
    expect(postActionBody({ ...newPostAction(), body: "{{run.state}} " }).body).toBe("{{run.state}} ");
  });
});
