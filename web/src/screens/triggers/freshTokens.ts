import { useSyncExternalStore } from "react";

// Only here: a token is never stored, and gone when the page is reloaded.
const tokens = new Map<string, string>();
const listeners = new Set<() => void>();

function changed(): void {
  listeners.forEach((listener) => listener());
}

/** Remembers a webhook's new token until it is dismissed. */
export function keepToken(webhookId: string, token: string): void {
  tokens.set(webhookId, token);
  changed();
}

export function dropToken(webhookId: string): void {
  tokens.delete(webhookId);
  changed();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** The token of a webhook that was made, or given a new one, just now. */
export function useFreshToken(webhookId: string): string | undefined {
  return useSyncExternalStore(subscribe, () => tokens.get(webhookId));
}
