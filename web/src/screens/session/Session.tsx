import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";

import { $api } from "@/api/client";
import { useMay } from "@/api/session";
import type { Schemas } from "@/api/types";
import { useSessionWords } from "@/live/LiveProvider";
import { Page } from "@/shell/Page";
import { Problem } from "@/ui/Problem";
import { Skeleton, SkeletonRows } from "@/ui/Skeleton";
import { SessionBadge } from "@/ui/states";
import { Tabs } from "@/ui/Tabs";

import { type Action, allowedActions, hasEnded } from "./actions";
import { ActionBar } from "./ActionBar";
import { Approvals } from "./Approvals";
import { Checks } from "./Checks";
import { BudgetMeter, Cost } from "./Cost";
import { Dialogs } from "./dialogs/Dialogs";
import { Facts } from "./Facts";
import { Files } from "./Files";
import { Notice } from "./Notice";
import { Result } from "./Result";
import { Scrubber } from "./Scrubber";
import { Setup } from "./Setup";
import { StateMap } from "./StateMap";
import { visited } from "./steps";
import { SubAgents } from "./SubAgents";
import { TimelineTab } from "./TimelineTab";
import { useJournal } from "./useJournal";
import { hear, unwritten, type Words } from "./words";

const route = getRouteApi("/inside/sessions/$sessionId");
const CRUMBS = [{ name: "Sessions", link: { to: "/sessions" } as const }];

/** One session: how it stands, what it did step by step, what it came to, and what can be done with it. */
export function Session() {
  const { sessionId } = route.useParams();
  const { data, error, refetch } = $api.useQuery("get", "/api/sessions/{session_id}", {
    params: { path: { session_id: sessionId } },
  });
  // Another session is another screen: nothing of the one before stays.
  if (data) return <Shown key={sessionId} session={data} />;
  return (
    <Page title="Session" crumbs={CRUMBS} wide>
      {error ? (
        <Problem error={error} retry={() => void refetch()} />
      ) : (
        <div className="grid gap-5">
          <Skeleton className="h-28" />
          <SkeletonRows rows={8} className="h-11" />
        </div>
      )}
    </Page>
  );
}

const TABS = ["result", "timeline", "files", "checks", "cost", "setup"] as const;
type TabName = (typeof TABS)[number];
const NAMES: Record<TabName, string> = {
  result: "Result",
  timeline: "Timeline",
  files: "Files",
  checks: "Gates and approvals",
  cost: "Cost",
  setup: "Set-up",
};

function Shown({ session }: { session: Schemas["SessionDetails"] }) {
  const search = route.useSearch();
  const navigate = useNavigate();
  const journal = useJournal(session.id);
  const words = useWords(session.id);
  const [open, setOpen] = useState<{ action: Action; seq: number }>();
  const endedAtFirst = useRef(hasEnded(session)).current;
  const allowed = allowedActions(session, { sessions: useMay("sessions:write"), budgets: useMay("budgets:write") });
  const states = useMemo(() => visited(journal.steps), [journal.steps]);
  const last = journal.steps.length;
  const answered = useMemo(() => journal.steps.findLast((step) => step.kind === "model")?.name, [journal.steps]);
  const usual: TabName = search.step === undefined && endedAtFirst && session.result ? "result" : "timeline";
  const tab = TABS.find((each) => each === search.tab) ?? usual;
  const live = !hasEnded(session);
  const select = useCallback(
    (step: number | undefined) =>
      void navigate({
        to: "/sessions/$sessionId",
        params: { sessionId: session.id },
        search: (before) => ({ ...before, tab, step }),
        replace: true,
        resetScroll: false,
      }),
    [navigate, session.id, tab],
  );
  // The journal may still be on its way; the session itself knows how long it is.
  const end = last || session.steps;
  const start = (action: Action) => setOpen({ action, seq: Math.min(search.step ?? end, end) });

  return (
    <Page
      title={session.title}
      heading={
        <>
          <span className="min-w-0 break-words">{session.title}</span>
          <SessionBadge session={session} />
        </>
      }
      crumbs={CRUMBS}
      actions={<ActionBar session={session} allowed={allowed} step={search.step} onOpen={start} />}
      wide
    >
      <Facts session={session} answered={answered} />
      <Approvals sessionId={session.id} />
      <Notice
        session={session}
        steps={journal.steps}
        allowed={allowed}
        justCompleted={!endedAtFirst && tab !== "result"}
        onOpen={start}
        onRollBack={(seq) => setOpen({ action: "rollback", seq })}
      />
      <StateMap state={session.state} visited={states}>
        <BudgetMeter sessionId={session.id} />
      </StateMap>
      <SubAgents sessionId={session.id} />
      <Tabs
        label="Parts of this session"
        tabs={TABS.map((each) => ({
          name: NAMES[each],
          active: each === tab,
          link: { to: "/sessions/$sessionId", params: { sessionId: session.id }, search: { tab: each, ...keptStep(each, search.step) }, replace: true, resetScroll: false },
        }))}
      />
      {(tab === "timeline" || tab === "files") && <Scrubber sessionId={session.id} steps={journal.steps} total={session.steps} selected={search.step} live={live} onSelect={select} />}
      {journal.error ? <Problem error={journal.error} retry={journal.retry} /> : null}
      {tab === "timeline" && (
        <TimelineTab
          session={session}
          journal={journal}
          selected={search.step}
          words={unwritten(words, last)}
          allowed={allowed}
          onSelect={select}
          onOpen={(action, seq) => setOpen({ action, seq })}
        />
      )}
      {tab === "files" && <Files sessionId={session.id} last={last} step={search.step} file={search.file} />}
      {tab === "result" && <Result session={session} />}
      {tab === "checks" && <Checks session={session} steps={journal.steps} />}
      {tab === "cost" && <Cost sessionId={session.id} />}
      {tab === "setup" && <Setup session={session} />}
      {open && <Dialogs session={session} steps={journal.steps} open={open} onClose={() => setOpen(undefined)} />}
    </Page>
  );
}

/** The step that is looked at belongs to the tabs that show things as of a step. */
function keptStep(tab: TabName, step: number | undefined): { step?: number } {
  return step !== undefined && (tab === "timeline" || tab === "files") ? { step } : {};
}

/** What the model is saying right now, gathered at the pace of the screen. */
function useWords(sessionId: string): Words | undefined {
  const heard = useRef<Words>(undefined);
  const frame = useRef(0);
  const [words, setWords] = useState<Words>();
  useSessionWords(sessionId, (piece) => {
    heard.current = hear(heard.current, piece);
    frame.current ||= requestAnimationFrame(() => {
      frame.current = 0;
      setWords(heard.current);
    });
  });
  useEffect(() => () => cancelAnimationFrame(frame.current), []);
  return words;
}
