import { describe, expect, it } from "vitest";

import { deviceOf } from "./logins";

const CHROME = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36";
const SAFARI = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1.15 Version/17.0 Mobile/15E148 Safari/604.1";

describe("a sign-in", () => {
  it("is called by its browser and system", () => {
    expect(deviceOf(CHROME)).toBe("Chrome on Linux");
    expect(deviceOf(`${CHROME} Edg/120.0`)).toBe("Edge on Linux");
    expect(deviceOf(SAFARI)).toBe("Safari on iOS");
    expect(deviceOf("curl/8.0")).toBe("curl");
    expect(deviceOf("")).toBe("Another program");
  });
});
