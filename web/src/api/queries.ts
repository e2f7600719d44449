import { QueryClient } from "@tanstack/react-query";

import { ApiProblem } from "./problem";

/** Lost connections are worth another try; answers of the server are not. */
function worthAnotherTry(count: number, error: unknown): boolean {
  return error instanceof ApiProblem && (error.status === 0 || error.status === 503) && count < 2;
}

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      // Events say what has changed (live/invalidation.ts); asking again on every look is waste.
      staleTime: 60_000,
      refetchOnWindowFocus: false,
      retry: worthAnotherTry,
      retryDelay: (attempt) => 500 * 2 ** attempt,
    },
  },
});
