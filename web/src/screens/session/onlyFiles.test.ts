import { describe, expect, it } from "vitest";

import { onlyFiles } from "./onlyFiles";

const paths = (...all: string[]) => onlyFiles(all.map((path) => ({ path }))).map(({ path }) => path);

describe("onlyFiles", () => {
  it("leaves out the directories of files", () => {
    expect(paths("src", "src-old", "src/deep", "src/deep/a.txt", "b.txt")).toEqual(["src-old", "src/deep/a.txt", "b.txt"]);
  });

  it("keeps what has nothing below it", () => {
    expect(paths("a", "a.txt", "ab/c")).toEqual(["a", "a.txt", "ab/c"]);
  });
});
