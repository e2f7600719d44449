import { $api, api, fetchApi } from "@/api/client";
import { queryClient } from "@/api/queries";
import type { Schemas } from "@/api/types";
import { serverUrl } from "@/lib/base";

export type TeamRead = Schemas["TeamRead"];
export type TeamDetails = Schemas["TeamDetails"];

const one = (teamId: string) => ({ params: { path: { team_id: teamId } } });

export function useTeam(teamId: string) {
  return $api.useQuery("get", "/api/teams/{team_id}", one(teamId));
}

/** Shows a team as the server has just answered it, without asking once more. */
export function keepTeam(team: TeamDetails): void {
  queryClient.setQueryData($api.queryOptions("get", "/api/teams/{team_id}", one(team.id)).queryKey, team);
  forgetTeams();
}

/** The lists of teams are asked for again. */
export function forgetTeams(): void {
  void queryClient.invalidateQueries({ queryKey: ["get", "/api/teams"] });
}

export function useUpdateTeam() {
  return $api.useMutation("patch", "/api/teams/{team_id}", { onSuccess: keepTeam });
}

/** Saves a team as a YAML file that can be imported. */
export async function downloadTeam(team: Pick<TeamRead, "id" | "name">): Promise<void> {
  const { data } = await api.GET("/api/teams/{team_id}/export", { ...one(team.id), parseAs: "blob" });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(data as Blob);
  link.download = `${team.name.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "") || "team"}.yaml`;
  link.click();
  URL.revokeObjectURL(link.href);
}

/** Makes a team of a document in YAML or JSON; `name` takes the place of the document's. */
export async function importTeam({ document, name }: { document: Blob; name: string }): Promise<TeamDetails> {
  const query = name === "" ? "" : `?name=${encodeURIComponent(name)}`;
  const response = await fetchApi(
    new Request(serverUrl(`/api/teams/import${query}`), {
      method: "POST",
      headers: { "Content-Type": "application/yaml" },
      body: await document.text(),
    }),
  );
  return (await response.json()) as TeamDetails;
}
