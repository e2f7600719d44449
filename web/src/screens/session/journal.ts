import { api } from "@/api/client";
import type { Schemas } from "@/api/types";

export type Step = Schemas["StepRead"];
type Page = { items: Step[]; next_cursor?: string | null };
/** Reads one page of a session's steps. */
export type ReadPage = (cursor: string | undefined, limit: number) => Promise<Page>;

const PAGE = 200;
// The last page is read again for what came after it; beyond so many steps it is closed first.
const LONGEST_TAIL = 20;

export interface JournalState {
  steps: Step[];
  /** All steps that were there when it was last asked for. */
  complete: boolean;
  error: unknown;
}

/** The steps of one session, read in pages and never twice as a whole: steps do not change, they are added. */
export class Journal {
  state: JournalState = { steps: [], complete: false, error: undefined };
  private readonly listeners = new Set<() => void>();
  /** Where the last page begins, and how many steps come before it. */
  private cursor: string | undefined;
  private before = 0;
  private reading: Promise<void> | undefined;
  private asked = false;

  constructor(private readonly read: ReadPage) {}

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  snapshot = (): JournalState => this.state;

  /** Reads on to the end; while it does, being asked again means once more afterwards. */
  catchUp = (): Promise<void> => {
    this.asked = true;
    this.reading ??= this.readAll().finally(() => {
      this.reading = undefined;
    });
    return this.reading;
  };

  private async readAll(): Promise<void> {
    try {
      while (this.asked) {
        this.asked = false;
        await this.readOn();
      }
    } catch (error) {
      this.asked = false;
      this.change({ error });
    }
  }

  private async readOn(): Promise<void> {
    await this.closeTail();
    for (;;) {
      const page = await this.read(this.cursor, PAGE);
      const next = page.next_cursor ?? undefined;
      const steps = [...this.state.steps.slice(0, this.before), ...page.items];
      if (next !== undefined) {
        this.cursor = next;
        this.before = steps.length;
      }
      this.change({ steps: inForce(steps), complete: next === undefined, error: undefined });
      if (next === undefined) return;
    }
  }

  /** Finds the cursor behind a long last page, so that it is not read over and over. */
  private async closeTail(): Promise<void> {
    const tail = this.state.steps.length - this.before;
    if (tail < LONGEST_TAIL) return;
    const page = await this.read(this.cursor, Math.min(tail, PAGE));
    if (page.next_cursor == null) return;
    this.cursor = page.next_cursor;
    this.before += page.items.length;
  }

  private change(part: Partial<JournalState>): void {
    this.state = { ...this.state, ...part };
    this.listeners.forEach((listener) => listener());
  }
}

/** The steps, with those on the way to the newest one marked as in force. */
export function inForce(steps: Step[]): Step[] {
  const on = pathTo(steps, steps.at(-1)?.seq ?? 0);
  // Only what a rollback has changed is made anew, so that rows stay what they are.
  return steps.map((step) => (on.has(step.seq) === step.in_force ? step : { ...step, in_force: !step.in_force }));
}

/** The numbers of the steps from the first one to `seq`, each after its parent. */
export function pathTo(steps: Step[], seq: number): Set<number> {
  const path = new Set<number>();
  let at: Step | undefined = steps[seq - 1];
  while (at) {
    path.add(at.seq);
    at = at.parent > 0 ? steps[at.parent - 1] : undefined;
  }
  return path;
}

/** The journal of a session, as the API gives it. */
export function journalOf(sessionId: string): Journal {
  return new Journal(async (cursor, limit) => {
    const query = cursor === undefined ? { limit } : { limit, cursor };
    const { data } = await api.GET("/api/sessions/{session_id}/steps", {
      params: { path: { session_id: sessionId }, query },
    });
    return data!;
  });
}
