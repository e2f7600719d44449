import { useRouter } from "@tanstack/react-router";
import { useState } from "react";

import { queryClient } from "@/api/queries";

/** Runs what signs somebody in, then goes to where they wanted to be. */
export function useEnter(next: string | undefined) {
  const router = useRouter();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const enter = async (signIn: () => Promise<unknown>) => {
    setBusy(true);
    setError(undefined);
    try {
      await signIn();
      queryClient.clear();
      await router.navigate({ href: ownPlace(next) });
    } catch (problem) {
      setError(problem);
    } finally {
      setBusy(false);
    }
  };
  return { enter, busy, error };
}

/** A path within the dashboard; an address that leads elsewhere is not followed. */
export function ownPlace(next: string | undefined): string {
  if (next === undefined || !next.startsWith("/") || next.startsWith("//") || next.includes("\\")) return "/";
  return next;
}
