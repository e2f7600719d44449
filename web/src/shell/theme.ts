import { useSyncExternalStore } from "react";

import { readStored, writeStored } from "@/lib/stored";

export type Theme = "light" | "dark" | "system";

const listeners = new Set<() => void>();
const darkSystem = matchMedia("(prefers-color-scheme: dark)");

function chosen(): Theme {
  const stored = readStored("theme");
  return stored === "light" || stored === "dark" ? stored : "system";
}

function apply(): void {
  const theme = chosen();
  const dark = theme === "system" ? darkSystem.matches : theme === "dark";
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  document.querySelector('meta[name="theme-color"]')?.setAttribute("content", dark ? "#0e0e12" : "#f6f6f8");
  listeners.forEach((listener) => listener());
}

darkSystem.addEventListener("change", apply);

export function setTheme(theme: Theme): void {
  writeStored("theme", theme === "system" ? null : theme);
  apply();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** The theme that was chosen, and whether the page is dark now. */
export function useTheme(): { theme: Theme; dark: boolean } {
  const theme = useSyncExternalStore(subscribe, chosen);
  const dark = useSyncExternalStore(subscribe, () => document.documentElement.dataset.theme === "dark");
  return { theme, dark };
}
