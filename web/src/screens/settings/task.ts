import { useCallback, useState } from "react";

import { queryClient } from "@/api/queries";

/** Marks what the API says below a path as old, so that what is shown is asked for again. */
export function refresh(...roots: string[]): Promise<void> {
  return queryClient.invalidateQueries({
    predicate: ({ queryKey: [, path] }) => typeof path === "string" && roots.some((root) => path === root || path.startsWith(`${root}/`)),
  });
}

export interface Task {
  busy: boolean;
  error: unknown;
  /** Does the work; answers whether it went well. */
  run: (work: () => Promise<unknown>) => Promise<boolean>;
}

/**
 * Something that is sent to the server, once at a time.
 *
 * Unlike a mutation of TanStack Query it keeps nothing of what was sent, which may be a secret.
 */
export function useTask(): Task {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const run = useCallback(async (work: () => Promise<unknown>) => {
    setBusy(true);
    setError(undefined);
    try {
      await work();
      return true;
    } catch (problem) {
      setError(problem);
      return false;
    } finally {
      setBusy(false);
    }
  }, []);
  return { busy, error, run };
}
