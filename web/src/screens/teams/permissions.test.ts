import { describe, expect, it } from "vitest";

import { draftOfPermissions, linesOf, permissionsOf } from "./permissions";

describe("linesOf", () => {
  it("takes one glob per line, without blanks, empty lines and doubles", () => {
    expect(linesOf("  git *\r\n\n pytest* \ngit *\n\t")).toEqual(["git *", "pytest*"]);
  });

  it("keeps blanks and commas within a glob", () => {
    expect(linesOf("rm -rf *, really")).toEqual(["rm -rf *, really"]);
  });
});

describe("permissions", () => {
  it("are null where nothing restricts", () => {
    expect(permissionsOf(draftOfPermissions({}))).toEqual({ tools: null, denied_commands: [], allowed_commands: null, files: null, ask: [] });
  });

  it("tell an empty list, which forbids all, from none", () => {
    const draft = draftOfPermissions({ tools: [], allowed_commands: null });
    expect(permissionsOf(draft).tools).toEqual([]);
    expect(permissionsOf({ ...draft, onlyTools: false }).tools).toBeNull();
  });

  it("come back as they were", () => {
    const given = { tools: ["shell", "read_file"], denied_commands: ["rm *"], allowed_commands: ["git *"], files: ["src/**"], ask: ["*"] };
    expect(permissionsOf(draftOfPermissions(given))).toEqual(given);
  });
});
