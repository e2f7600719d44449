import { $api, api } from "./client";
import { queryClient } from "./queries";
import type { Schemas } from "./types";

export type Scope = Schemas["Scope"];

const me = $api.queryOptions("get", "/api/auth/me", {}, { staleTime: Infinity });

/** Who is signed in; raises a 401 problem if nobody is. */
export function loadMe(): Promise<Schemas["WhoAmI"]> {
  return queryClient.ensureQueryData(me);
}

/** Who is signed in. Only below the signed-in layout, where somebody always is. */
export function useMe(): Schemas["WhoAmI"] {
  return $api.useSuspenseQuery("get", "/api/auth/me", {}, { staleTime: Infinity }).data;
}

/** Whether the person who looks may do what needs `scope`. The server decides; this only hides. */
export function useMay(scope: Scope): boolean {
  return useMe().scopes.includes(scope);
}

export async function signOut(): Promise<void> {
  await api.POST("/api/auth/logout", { body: {} as Schemas["SignOut"] });
  queryClient.clear();
}
