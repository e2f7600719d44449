import { describe, expect, it } from "vitest";

import { definitionsOf, splitBlocks, withDefinitions } from "./blocks";

const texts = (text: string) => splitBlocks(text).blocks.map((block) => block.text.trim());

describe("splitBlocks", () => {
  it("cuts at empty lines", () => {
    expect(texts("# One\n\ntwo\nstill two\n\n\nthree")).toEqual(["# One", "two\nstill two", "three"]);
  });

  it("keeps empty lines within code, and ends the block with its fence", () => {
    const { blocks } = splitBlocks("Before:\n```python\na = 1\n\n\nb = 2\n```\nafter");
    expect(blocks.map((block) => block.code)).toEqual([
      undefined,
      { language: "python", body: "a = 1\n\n\nb = 2", closed: true },
      undefined,
    ]);
  });

  it("knows code that is still being written", () => {
    const [block] = splitBlocks("```ts title=x\nconst a = `").blocks;
    expect(block!.code).toEqual({ language: "ts", body: "const a = `", closed: false });
  });

  it("does not end a fence by a shorter or another one", () => {
    const { blocks } = splitBlocks("````md\n```\n~~~\n````\nend");
    expect(blocks).toHaveLength(2);
    expect(blocks[0]!.code!.body).toBe("```\n~~~");
  });

  it("keeps a list with gaps, and what is indented below an item, together", () => {
    const list = "1. one\n\n   more of one\n\n2. two\n\n   ```sh\n   ls\n\n   pwd\n   ```\n\n3. three";
    expect(texts(`${list}\n\nafter`)).toEqual([list, "after"]);
  });

  it("cuts a long list between its items", () => {
    const list = Array.from({ length: 300 }, (_, n) => `- item ${n} with some words`).join("\n");
    const { blocks } = splitBlocks(list);
    expect(blocks.length).toBeGreaterThan(2);
    expect(blocks.map((block) => block.text).join("")).toBe(list);
  });

  it("gives the same, however the text grew", () => {
    const text = "Intro\n\n- a\n- b\n\n```js\nlet x = 1;\n\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nEnd of it.\n";
    let split = splitBlocks("");
    for (let length = 1; length <= text.length; length += 1) split = splitBlocks(text.slice(0, length), split);
    expect(split.blocks).toEqual(splitBlocks(text).blocks);
  });

  it("leaves finished blocks as they are, so that they are not read again", () => {
    const before = splitBlocks("one\n\ntwo");
    const after = splitBlocks("one\n\ntwo and more\n\nthree", before);
    expect(after.blocks[0]).toBe(before.blocks[0]);
    expect(splitBlocks("another", before).blocks.map((block) => block.text)).toEqual(["another"]);
  });
});

describe("withDefinitions", () => {
  it("adds what a block uses from another", () => {
    const { blocks } = splitBlocks("See [the docs][Docs].\n\nNothing.\n\n[docs]: https://example.org");
    const definitions = definitionsOf(blocks);
    expect(withDefinitions(blocks[0]!.text, definitions)).toContain("[docs]: https://example.org");
    expect(withDefinitions(blocks[1]!.text, definitions)).toBe(blocks[1]!.text);
    expect(withDefinitions(blocks[2]!.text, definitions)).toBe(blocks[2]!.text);
  });
});
