// @vitest-environment jsdom
import { describe, expect, it } from "vitest";

import { inForce, Journal, type ReadPage, type Step } from "./journal";

function step(seq: number, parent = seq - 1): Step {
  return { seq, parent, in_force: true, kind: "tool" } as Step;
}

function server(count: number) {
  const steps = Array.from({ length: count }, (_, index) => step(index + 1));
  const read: { after: number; given: number }[] = [];
  const page: ReadPage = async (cursor, limit) => {
    const after = Number(cursor ?? 0);
    const items = steps.slice(after, after + limit);
    read.push({ after, given: items.length });
    return { items, next_cursor: after + limit < steps.length ? String(after + limit) : null };
  };
  return { steps, read, page };
}

describe("Journal", () => {
  it("reads all pages in order", async () => {
    const { page, read } = server(450);
    const journal = new Journal(page);
    await journal.catchUp();
    expect(journal.state.steps.map((each) => each.seq)).toEqual(Array.from({ length: 450 }, (_, index) => index + 1));
    expect(journal.state.complete).toBe(true);
    expect(read.map((each) => each.after)).toEqual([0, 200, 400]);
  });

  it("reads only the end again when steps are added", async () => {
    const { steps, page, read } = server(450);
    const journal = new Journal(page);
    await journal.catchUp();
    for (let added = 0; added < 30; added += 1) {
      steps.push(step(steps.length + 1));
      read.length = 0;
      await journal.catchUp();
      expect(journal.state.steps).toHaveLength(steps.length);
    }
    // Never a page from further back, and of the last one only a little.
    expect(Math.min(...read.map((each) => each.after))).toBeGreaterThanOrEqual(450);
    expect(read.reduce((sum, each) => sum + each.given, 0)).toBeLessThan(45);
  });

  it("asks once more when it was asked while it read", async () => {
    const { steps, page } = server(10);
    const journal = new Journal(async (cursor, limit) => {
      const answer = await page(cursor, limit);
      if (steps.length === 10) {
        steps.push(step(11));
        void journal.catchUp();
      }
      return answer;
    });
    await journal.catchUp();
    expect(journal.state.steps).toHaveLength(11);
  });

  it("keeps what it has when reading fails, and goes on from there", async () => {
    const { page } = server(300);
    let broken = true;
    const journal = new Journal((cursor, limit) => {
      if (cursor && broken) return Promise.reject(new Error("away"));
      return page(cursor, limit);
    });
    await journal.catchUp();
    expect(journal.state.steps).toHaveLength(200);
    expect(journal.state.error).toBeInstanceOf(Error);
    broken = false;
    await journal.catchUp();
    expect(journal.state.steps).toHaveLength(300);
    expect(journal.state.error).toBeUndefined();
  });
});

describe("inForce", () => {
  it("leaves out what a rollback went back behind", () => {
    const steps = [step(1), step(2), step(3), step(4), step(5, 2), step(6)];
    expect(inForce(steps).map((each) => each.in_force)).toEqual([true, true, false, false, true, true]);
  });

  it("brings back what undoing a rollback restores", () => {
    const steps = [step(1), step(2), step(3), step(4, 1), step(5, 3)];
    expect(inForce(steps).map((each) => each.in_force)).toEqual([true, true, true, false, true]);
  });
});
