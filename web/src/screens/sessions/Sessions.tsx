import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { Play, Search, SquareActivity } from "lucide-react";
import { useEffect, useRef, useState } from "react";

import { $api } from "@/api/client";
import { itemsOf, paged } from "@/api/paging";
import { useMay } from "@/api/session";
import type { Schemas } from "@/api/types";
import { formatDuration, formatMoney, plural } from "@/lib/format";
import { Page } from "@/shell/Page";
import { useShortcut } from "@/shell/shortcuts";
import { Button, LinkButton } from "@/ui/Button";
import { CopyCurl } from "@/ui/Copy";
import { Empty } from "@/ui/Empty";
import { SelectField, TextField } from "@/ui/Field";
import { Problem } from "@/ui/Problem";
import { SkeletonRows } from "@/ui/Skeleton";
import { SessionBadge } from "@/ui/states";
import { Time } from "@/ui/Time";

import { type Filter, GROUPS, queryOf } from "./filter";
import { PAGE, useFreshSessions } from "./fresh";

const route = getRouteApi("/inside/sessions");
const ROW = 64;

/** All sessions, newest first; the filters are in the address. */
export function Sessions() {
  const filter = route.useSearch();
  const mayStart = useMay("sessions:write");
  const init = { params: { query: { ...queryOf(filter), limit: PAGE } } };
  const query = $api.useInfiniteQuery("get", "/api/sessions", init, {
    ...paged,
    meta: { live: "self" },
    // Comparing thousands of sessions with themselves for each new page would be felt.
    structuralSharing: false,
  });
  useFreshSessions(init);
  const sessions = itemsOf(query.data);
  const navigate = useNavigate();
  useShortcut("c", "Start a session", () => void navigate({ to: "/sessions/new" }), mayStart);
  const start = mayStart && (
    <LinkButton to="/sessions/new" look="primary" icon={<Play size={15} />}>
      Start a session
    </LinkButton>
  );
  const filtered = Object.keys(filter).length > 0;
  return (
    <Page
      wide
      title="Sessions"
      note="Each is one piece of work that an agent does to its end, step by step."
      actions={
        <>
          <CopyCurl method="GET" path={`/api/sessions?${new URLSearchParams(Object.entries(queryOf(filter)).flatMap(([name, value]) => [value].flat().map((each) => [name, String(each)]))).toString()}`} />
          {start}
        </>
      }
    >
      <Filters filter={filter} />
      {query.isPending && <SkeletonRows rows={8} />}
      {query.isError && <Problem error={query.error} retry={() => void query.refetch()} />}
      {query.isSuccess && sessions.length === 0 && (
        <Empty
          icon={SquareActivity}
          title={filtered ? "No session fits" : "No session yet"}
          action={filtered ? <LinkButton to="/sessions">Show all sessions</LinkButton> : start}
        >
          {filtered ? "Try other words or another state." : "Give an agent a task in one sentence and watch it work."}
        </Empty>
      )}
      {sessions.length > 0 && (
        <List sessions={sessions} hasMore={query.hasNextPage} isLoading={query.isFetchingNextPage} loadMore={() => void query.fetchNextPage()} />
      )}
    </Page>
  );
}

function Filters({ filter }: { filter: Filter }) {
  const navigate = useNavigate();
  const teams = $api.useQuery("get", "/api/teams", { params: { query: { limit: 100 } } });
  const [text, setText] = useState(filter.q ?? "");
  const change = (next: Filter) => {
    const whole = Object.fromEntries(Object.entries({ ...filter, ...next }).filter(([, value]) => value));
    void navigate({ to: "/sessions", search: whole, replace: true });
  };
  useEffect(() => {
    if ((filter.q ?? "") === text.trim()) return;
    const timer = setTimeout(() => change({ q: text.trim() || undefined }), 250);
    return () => clearTimeout(timer);
  });
  return (
    <form role="search" onSubmit={(event) => event.preventDefault()} className="grid gap-3 sm:grid-cols-[minmax(0,1fr)_12rem_12rem]">
      <TextField hideLabel label="Words in the title" type="search" placeholder="Words in the title" value={text} onChange={(event) => setText(event.target.value)} />
      <SelectField hideLabel label="State" value={filter.state ?? ""} onChange={(event) => change({ state: event.target.value || undefined })}>
        <option value="">Any state</option>
        {Object.entries(GROUPS).map(([value, group]) => (
          <option key={value} value={value}>
            {group.name}
          </option>
        ))}
      </SelectField>
      <SelectField hideLabel label="Team" value={filter.team ?? ""} onChange={(event) => change({ team: event.target.value || undefined })}>
        <option value="">Any team</option>
        {teams.data?.items.map((team) => (
          <option key={team.id} value={team.id}>
            {team.name}
          </option>
        ))}
      </SelectField>
    </form>
  );
}

interface ListProps {
  sessions: Schemas["SessionRead"][];
  hasMore: boolean;
  isLoading: boolean;
  loadMore: () => void;
}

/** Only the rows in sight exist: ten thousand sessions scroll as ten do. */
function List({ sessions, hasMore, isLoading, loadMore }: ListProps) {
  const frame = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({
    count: sessions.length,
    getScrollElement: () => frame.current,
    estimateSize: () => ROW,
    overscan: 12,
  });
  const visible = rows.getVirtualItems();
  const last = visible.at(-1)?.index ?? 0;
  useEffect(() => {
    if (hasMore && !isLoading && last >= sessions.length - 30) loadMore();
  }, [hasMore, isLoading, last, sessions.length, loadMore]);
  return (
    <div className="grid gap-2">
      <div
        ref={frame}
        role="region"
        aria-label="Sessions"
        tabIndex={0}
        className="max-h-[calc(100dvh-15rem)] min-h-96 overflow-y-auto rounded-lg border border-line bg-surface shadow-card"
      >
        <ul className="relative" style={{ height: rows.getTotalSize() }}>
          {visible.map((row) => {
            const session = sessions[row.index]!;
            return (
              <li
                key={session.id}
                aria-setsize={hasMore ? -1 : sessions.length}
                aria-posinset={row.index + 1}
                className="absolute inset-x-0 top-0 border-b border-line"
                style={{ height: row.size, transform: `translateY(${row.start}px)` }}
              >
                <Row session={session} />
              </li>
            );
          })}
        </ul>
      </div>
      <p role="status" className="flex min-h-7 items-center gap-3 text-xs text-faint">
        {isLoading ? "Loading more…" : hasMore ? `${plural(sessions.length, "session")} so far; more load as you scroll` : plural(sessions.length, "session")}
        {hasMore && !isLoading && (
          <Button size="small" look="quiet" icon={<Search size={13} />} onClick={loadMore}>
            Load more
          </Button>
        )}
      </p>
    </div>
  );
}

function Row({ session }: { session: Schemas["SessionRead"] }) {
  return (
    <Link
      to="/sessions/$sessionId"
      params={{ sessionId: session.id }}
      className="grid h-full grid-cols-[minmax(0,1fr)_auto] items-center gap-x-4 px-4 -outline-offset-2 hover:bg-hover md:grid-cols-[minmax(0,1fr)_8.5rem_6rem_6rem_7.5rem]"
    >
      <span className="min-w-0">
        <span className="block truncate text-sm font-medium">{session.title}</span>
        <span className="block truncate text-xs text-faint">
          {session.model}, {plural(session.steps, "step")}
          {session.error && <span className="text-bad">: {session.error}</span>}
        </span>
      </span>
      <span>
        <SessionBadge session={session} />
      </span>
      <span className="hidden text-right text-sm text-soft tabular md:block">{session.ran_ms > 0 ? formatDuration(session.ran_ms) : ""}</span>
      <span className="hidden text-right text-sm text-soft tabular md:block">{formatMoney(session.cost_micros)}</span>
      <Time at={session.created_at} className="hidden text-right text-xs text-faint md:block" />
    </Link>
  );
}
