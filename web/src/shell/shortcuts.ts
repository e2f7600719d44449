import { useEffect, useRef, useSyncExternalStore } from "react";

export interface Shortcut {
  keys: string;
  name: string;
}

const handlers = new Map<string, { name: string; run: () => void }[]>();
const listeners = new Set<() => void>();
let shown: Shortcut[] = [];

/** How long the first key of a sequence such as "g s" waits for the second. */
const SEQUENCE = 1200;
let before = "";
let since = 0;

function typing(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

/** The name of what was pressed: "mod+k", "?", "g". */
export function keyOf(event: KeyboardEvent): string {
  const mod = event.metaKey || event.ctrlKey;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  return mod ? `mod+${key}` : key;
}

function press(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.altKey || event.isComposing) return;
  const key = keyOf(event);
  const mod = key.startsWith("mod+");
  if (!mod && typing(event.target)) return;
  // Inside of a dialog its own keys count.
  if (!mod && document.querySelector("dialog[open]")) return;
  const sequence = event.timeStamp - since < SEQUENCE && before ? `${before} ${key}` : key;
  const found = handlers.get(sequence)?.at(-1) ?? handlers.get(key)?.at(-1);
  before = found ? "" : key;
  since = event.timeStamp;
  if (!found) return;
  event.preventDefault();
  found.run();
}

addEventListener("keydown", press);

function changed(): void {
  shown = [...handlers].flatMap(([keys, list]) => (list.length ? [{ keys, name: list.at(-1)!.name }] : []));
  listeners.forEach((listener) => listener());
}

/** Runs `run` when `keys` are pressed outside of a text field, while the component is there. */
export function useShortcut(keys: string, name: string, run: () => void, enabled = true): void {
  const latest = useRef(run);
  latest.current = run;
  useEffect(() => {
    if (!enabled) return;
    const handler = { name, run: () => latest.current() };
    handlers.set(keys, [...(handlers.get(keys) ?? []), handler]);
    changed();
    return () => {
      handlers.set(keys, (handlers.get(keys) ?? []).filter((each) => each !== handler));
      changed();
    };
  }, [keys, name, enabled]);
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** All shortcuts that work right now. */
export function useShortcuts(): Shortcut[] {
  return useSyncExternalStore(subscribe, () => shown);
}
