import { keepPreviousData } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { LayoutGrid, List, Plus, Search, Upload, Users } from "lucide-react";
import { useEffect, useState } from "react";

import { $api } from "@/api/client";
import { itemsOf, paged } from "@/api/paging";
import { useMay } from "@/api/session";
import { useStored } from "@/lib/stored";
import { useEvents } from "@/live/LiveProvider";
import { Page } from "@/shell/Page";
import { Button, LinkButton } from "@/ui/Button";
import { Empty } from "@/ui/Empty";
import { SelectField, TextField } from "@/ui/Field";
import { More } from "@/ui/More";
import { Problem } from "@/ui/Problem";
import { Skeleton } from "@/ui/Skeleton";
import { TEAM_STATUSES } from "@/ui/states";
import { Choice } from "@/ui/Tabs";

import { ImportTeam, useDrop } from "./ImportTeam";
import { TeamCards, TeamTable } from "./TeamList";
import { TemplateCards } from "./TemplateCards";
import { forgetTeams } from "./teamQueries";
import type { TeamStatus } from "./words";

const route = getRouteApi("/inside/teams");
const STATUSES = Object.keys(TEAM_STATUSES) as TeamStatus[];

/** All teams, with what they are and how they do. */
export function Teams() {
  const { q, status: asked } = route.useSearch();
  const status = STATUSES.find((each) => each === asked);
  const may = useMay("teams:write");
  const [view, setView] = useStored("teams.view", "cards");
  const [importing, setImporting] = useState<File | true>();
  const { dragging, ...drop } = useDrop(may, setImporting);
  const query = $api.useInfiniteQuery(
    "get",
    "/api/teams",
    { params: { query: { limit: 48, ...(q && { name: q }), ...(status && { status }) } } },
    { ...paged, placeholderData: keepPreviousData },
  );
  // How many messages wait changes without the team changing.
  useEvents(["message."], forgetTeams);
  const teams = itemsOf(query.data);
  const filtered = q !== undefined || status !== undefined;
  const none = query.isSuccess && teams.length === 0;
  return (
    <div {...drop} className={dragging ? "outline-2 -outline-offset-8 outline-accent outline-dashed" : undefined}>
      <Page
        wide
        title="Teams"
        note="A leader and its workers, that you talk to."
        actions={
          may && (
            <>
              <Button icon={<Upload size={15} aria-hidden />} onClick={() => setImporting(true)}>
                Import YAML
              </Button>
              <LinkButton to="/teams/new" look="primary" icon={<Plus size={15} aria-hidden />}>
                New team
              </LinkButton>
            </>
          )
        }
      >
        {!(none && !filtered) && <Filters q={q} status={status} view={view} setView={setView} />}
        {query.isError && <Problem error={query.error} retry={() => void query.refetch()} />}
        {query.isPending && <Loading />}
        {none && filtered && (
          <Empty icon={Search} title="No team is like that" action={<LinkButton to="/teams">Show all teams</LinkButton>}>
            Look for another part of the name, or another status.
          </Empty>
        )}
        {none && !filtered && <NoTeams may={may} />}
        {teams.length > 0 && (view === "table" ? <TeamTable teams={teams} /> : <TeamCards teams={teams} />)}
        <More query={query} />
      </Page>
      {importing && <ImportTeam file={importing === true ? undefined : importing} onClose={() => setImporting(undefined)} />}
    </div>
  );
}

interface FilterProps {
  q: string | undefined;
  status: TeamStatus | undefined;
  view: string;
  setView: (view: string) => void;
}

function Filters({ q, status, view, setView }: FilterProps) {
  const navigate = route.useNavigate();
  const [typed, setTyped] = useState(q ?? "");
  useEffect(() => setTyped(q ?? ""), [q]);
  useEffect(() => {
    const name = typed.trim() || undefined;
    if (name === q) return;
    const timer = setTimeout(() => void navigate({ search: (old) => ({ ...old, q: name }), replace: true }), 250);
    return () => clearTimeout(timer);
  }, [typed, q, navigate]);
  return (
    <div className="flex flex-wrap items-center gap-2">
      <TextField label="Find by name" hideLabel type="search" placeholder="Find by name" className="w-full sm:w-64" value={typed} onChange={(event) => setTyped(event.target.value)} />
      <SelectField
        label="Status"
        hideLabel
        className="min-w-40 flex-1 sm:flex-none"
        value={status ?? ""}
        onChange={(event) => void navigate({ search: (old) => ({ ...old, status: event.target.value || undefined }) })}
      >
        <option value="">Every status</option>
        {STATUSES.map((each) => (
          <option key={each} value={each}>
            {TEAM_STATUSES[each].word}
          </option>
        ))}
      </SelectField>
      <span className="flex-1 max-sm:hidden" />
      <Choice
        label="Show as"
        value={view}
        onChange={setView}
        options={[
          { value: "cards", name: <span className="flex items-center gap-1.5"><LayoutGrid size={13} aria-hidden /> Cards</span> },
          { value: "table", name: <span className="flex items-center gap-1.5"><List size={13} aria-hidden /> Table</span> },
        ]}
      />
    </div>
  );
}

function Loading() {
  return (
    <div role="status" aria-label="Loading" className="grid gap-4 sm:grid-cols-2 xl:grid-cols-3">
      {Array.from({ length: 6 }, (_, index) => (
        <Skeleton key={index} className="h-52 rounded-lg" />
      ))}
    </div>
  );
}

function NoTeams({ may }: { may: boolean }) {
  if (!may) {
    return (
      <Empty icon={Users} title="No teams yet">
        Somebody who may change teams has to make the first one.
      </Empty>
    );
  }
  return (
    <div className="grid gap-6">
      <Empty icon={Users} title="No teams yet" action={<LinkButton to="/teams/new" look="primary">Create a team</LinkButton>}>
        A message to a team goes to its leader, who hands parts of it to workers and answers. Start from a template, or drop a YAML file here.
      </Empty>
      <section aria-labelledby="start-from" className="grid gap-3">
        <h2 id="start-from" className="text-base font-semibold">
          Start from a template
        </h2>
        <TemplateCards />
      </section>
    </div>
  );
}
