import { useCallback, useState } from "react";

/** What this browser remembers under a name; nothing where storage is switched off. */
export function readStored(name: string): string | null {
  try {
    return localStorage.getItem(`agentos.${name}`);
  } catch {
    return null;
  }
}

export function writeStored(name: string, value: string | null): void {
  try {
    if (value === null) localStorage.removeItem(`agentos.${name}`);
    else localStorage.setItem(`agentos.${name}`, value);
  } catch {
    // Storage is switched off or full: then it is remembered until the page is left.
  }
}

/** A choice that outlives the page, in this browser. */
export function useStored(name: string, initial: string): [string, (value: string) => void] {
  const [value, setValue] = useState(() => readStored(name) ?? initial);
  const set = useCallback(
    (next: string) => {
      writeStored(name, next);
      setValue(next);
    },
    [name],
  );
  return [value, set];
}
