import { useQueries } from "@tanstack/react-query";

import { $api } from "@/api/client";

/** What a thing that is known by its id is called; undefined while it is asked for, null if it is gone. */
export type Names = Map<string, string | null | undefined>;

function namesFrom<T>(ids: string[], answers: { data: T | undefined; isError: boolean }[], nameOf: (found: T) => string): Names {
  return new Map(
    ids.map((id, index) => {
      const answer = answers[index];
      if (answer?.data !== undefined) return [id, nameOf(answer.data)];
      return [id, answer?.isError ? null : undefined];
    }),
  );
}

export function useTeamNames(ids: string[]): Names {
  const answers = useQueries({
    queries: ids.map((id) => $api.queryOptions("get", "/api/teams/{team_id}", { params: { path: { team_id: id } } }, { retry: false })),
  });
  return namesFrom(ids, answers, (team) => team.name);
}

export function useSessionTitles(ids: string[]): Names {
  const answers = useQueries({
    queries: ids.map((id) => $api.queryOptions("get", "/api/sessions/{session_id}", { params: { path: { session_id: id } } }, { retry: false })),
  });
  return namesFrom(ids, answers, (session) => session.title);
}
