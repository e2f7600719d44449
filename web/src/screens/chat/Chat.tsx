import { useParams, useSearch } from "@tanstack/react-router";
import { useEffect } from "react";

import { $api } from "@/api/client";
import { writeStored } from "@/lib/stored";
import { Page } from "@/shell/Page";
import { LinkButton } from "@/ui/Button";
import { Problem } from "@/ui/Problem";
import { Skeleton } from "@/ui/Skeleton";

import { TeamProvider } from "./agents";
import { LAST_TEAM } from "./Chats";
import { Header, StandingBar } from "./Header";
import { Results } from "./Results";
import { Talk } from "./Talk";
import { TeamRail } from "./Teams";

/** The chat with one team. */
export function Chat() {
  const { teamId } = useParams({ from: "/inside/chat/$teamId" });
  const { message, q } = useSearch({ from: "/inside/chat/$teamId" });
  const team = $api.useQuery("get", "/api/teams/{team_id}", { params: { path: { team_id: teamId } } });
  const found = team.data !== undefined;
  useEffect(() => {
    if (found) writeStored(LAST_TEAM, teamId);
  }, [found, teamId]);
  if (team.data === undefined && team.error) {
    return (
      <Page title="Chat" actions={<LinkButton to="/teams">All teams</LinkButton>}>
        <Problem error={team.error} retry={() => void team.refetch()} />
      </Page>
    );
  }
  return (
    <div className="absolute inset-0 flex min-w-0">
      <TeamRail current={teamId} />
      <div className="flex min-w-0 flex-1 flex-col">
        {team.data ? (
          <TeamProvider value={team.data}>
            <Header q={q} key={`header-${teamId}`} />
            <StandingBar />
            {q !== undefined && <Results q={q} />}
            <div className={q === undefined ? "contents" : "hidden"}>
              <Talk key={teamId} team={team.data} target={message} />
            </div>
          </TeamProvider>
        ) : (
          <div role="status" aria-label="Loading" className="border-b border-line px-4 py-3">
            <Skeleton className="h-9 w-56" />
          </div>
        )}
      </div>
    </div>
  );
}
