import { Link, useLocation } from "@tanstack/react-router";
import clsx from "clsx";
import { ChevronDown, History } from "lucide-react";
import { type ReactNode, useEffect, useId, useRef, useState } from "react";

import type { Schemas } from "@/api/types";
import { formatDuration, formatMoment } from "@/lib/format";
import { Badge } from "@/ui/Badge";
import { Empty } from "@/ui/Empty";
import { More } from "@/ui/More";
import { Problem } from "@/ui/Problem";
import { SkeletonRows } from "@/ui/Skeleton";
import { RunBadge } from "@/ui/states";
import { Time } from "@/ui/Time";

import { Deliveries } from "./Deliveries";
import { runAnchor } from "./runAnchor";

type Run = Schemas["RunRead"];

interface Query {
  isPending: boolean;
  isError: boolean;
  error: unknown;
  refetch: () => unknown;
  hasNextPage: boolean;
  isFetchingNextPage: boolean;
  fetchNextPage: () => unknown;
}

interface Props {
  query: Query;
  runs: Run[];
  teamId: string | null;
  actions: Schemas["PostActionRead"][];
  /** What to say while there are none. */
  none: ReactNode;
}

/** What a schedule or a webhook has started, newest first; each opens to all that is known of it. */
export function Runs({ query, runs, teamId, actions, none }: Props) {
  if (query.isPending) return <SkeletonRows rows={4} className="h-12" />;
  if (query.isError) return <Problem error={query.error} retry={() => void query.refetch()} />;
  if (runs.length === 0) {
    return (
      <Empty icon={History} title="No run yet">
        {none}
      </Empty>
    );
  }
  return (
    <>
      <ul className="-mx-4 -my-4 divide-y divide-line">
        {runs.map((run) => (
          <RunRow key={run.id} run={run} teamId={teamId} actions={actions} />
        ))}
      </ul>
      <More query={query} />
    </>
  );
}

function RunRow({ run, teamId, actions }: { run: Run; teamId: string | null; actions: Schemas["PostActionRead"][] }) {
  const anchor = runAnchor(run.id);
  const named = useLocation({ select: ({ hash }) => hash === anchor });
  const [open, setOpen] = useState(named);
  const row = useRef<HTMLLIElement>(null);
  const panel = useId();
  useEffect(() => {
    if (named) row.current?.scrollIntoView({ block: "nearest" });
  }, [named]);
  const said = run.error ?? run.result;
  return (
    <li id={anchor} ref={row}>
      <button
        type="button"
        aria-expanded={open}
        aria-controls={panel}
        onClick={() => setOpen(!open)}
        className="grid w-full grid-cols-[6.5rem_minmax(0,1fr)_auto] items-center gap-x-3 gap-y-1 px-4 py-2.5 text-left -outline-offset-2 hover:bg-hover sm:grid-cols-[6.5rem_12.5rem_minmax(0,1fr)_5rem_auto]"
      >
        <span>
          <RunBadge state={run.state} />
        </span>
        <span className="flex items-center gap-2 text-sm">
          <Time at={run.due_at} className="truncate" />
          {run.manual && <Badge title="Somebody asked for it">By hand</Badge>}
        </span>
        <span className={clsx("truncate text-sm max-sm:col-span-3 max-sm:row-start-2", run.error ? "text-bad" : "text-soft")}>{said?.trim().split("\n")[0]}</span>
        <span className="text-right text-xs text-faint tabular max-sm:hidden">{took(run)}</span>
        <ChevronDown size={15} aria-hidden className={clsx("text-faint transition-transform", open && "rotate-180")} />
      </button>
      {open && (
        <div id={panel} className="grid gap-4 bg-sunken px-4 py-4">
          <Details run={run} teamId={teamId} />
          <Deliveries runId={run.id} actions={actions} />
        </div>
      )}
    </li>
  );
}

function took(run: Run): string {
  if (!run.started_at || !run.finished_at) return "";
  return formatDuration(Date.parse(run.finished_at) - Date.parse(run.started_at));
}

function Details({ run, teamId }: { run: Run; teamId: string | null }) {
  return (
    <>
      <dl className="flex flex-wrap gap-x-8 gap-y-2 text-sm">
        <Fact name="Due">{formatMoment(run.due_at)}</Fact>
        {run.started_at && <Fact name="Started">{formatMoment(run.started_at)}</Fact>}
        {took(run) && <Fact name="Took">{took(run)}</Fact>}
        <Fact name="Came to">
          <Came run={run} teamId={teamId} />
        </Fact>
      </dl>
      {run.error && <Words name="Error" text={run.error_code ? `${run.error} (${run.error_code})` : run.error} bad />}
      {run.prompt && <Words name="Prompt" text={run.prompt} />}
      {run.result && <Words name="Result" text={run.result} />}
    </>
  );
}

function Came({ run, teamId }: { run: Run; teamId: string | null }) {
  const look = "text-accent-ink underline";
  if (run.session_id) {
    return (
      <Link to="/sessions/$sessionId" params={{ sessionId: run.session_id }} className={look}>
        Open its session
      </Link>
    );
  }
  if (run.message_id && teamId) {
    return (
      <Link to="/chat/$teamId" params={{ teamId }} search={{ message: run.message_id }} className={look}>
        Open its message
      </Link>
    );
  }
  return <span className="text-soft">{run.state === "skipped" ? "Nothing: it was skipped" : "Nothing yet"}</span>;
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div>
      <dt className="text-xs text-faint">{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Words({ name, text, bad = false }: { name: string; text: string; bad?: boolean }) {
  return (
    <div className="grid gap-1">
      <p className="text-xs text-faint">{name}</p>
      <pre tabIndex={0} aria-label={name} role="region" className={clsx("max-h-60 overflow-auto rounded-md border border-line bg-surface p-3 font-sans text-sm break-words whitespace-pre-wrap", bad && "text-bad")}>
        {text}
      </pre>
    </div>
  );
}
