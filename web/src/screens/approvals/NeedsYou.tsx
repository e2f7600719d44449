import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { Inbox } from "lucide-react";
import { useEffect, useRef } from "react";

import { $api } from "@/api/client";
import { itemsOf, paged } from "@/api/paging";
import { Page } from "@/shell/Page";
import { useShortcut } from "@/shell/shortcuts";
import { CopyCurl } from "@/ui/Copy";
import { Empty } from "@/ui/Empty";
import { Kbd } from "@/ui/Kbd";
import { More } from "@/ui/More";
import { Problem } from "@/ui/Problem";
import { SkeletonRows } from "@/ui/Skeleton";
import { Tabs } from "@/ui/Tabs";

import { type Approval, ApprovalCard, type ApprovalHandle } from "./ApprovalCard";

const route = getRouteApi("/inside/needs-you");
const STATES: { state: Approval["state"]; name: string }[] = [
  { state: "waiting", name: "Waiting" },
  { state: "approved", name: "Approved" },
  { state: "rejected", name: "Rejected" },
  { state: "expired", name: "Expired" },
  { state: "withdrawn", name: "Withdrawn" },
];

/** Everything that waits for a person, and what became of it. */
export function NeedsYou() {
  const search = route.useSearch();
  const state = STATES.find((each) => each.state === search.state)?.state ?? "waiting";
  const query = $api.useInfiniteQuery("get", "/api/approvals", { params: { query: { state, limit: 30 } } }, paged);
  const approvals = itemsOf(query.data);
  return (
    <Page
      title="Needs you"
      note="Agents that wait for a yes, a no or an answer."
      actions={<CopyCurl method="GET" path={`/api/approvals?state=${state}`} />}
    >
      <Tabs
        label="State"
        tabs={STATES.map((each) => ({ name: each.name, active: each.state === state, link: { to: "/needs-you", search: { state: each.state } } }))}
      />
      {query.isPending && <SkeletonRows rows={3} className="h-40" />}
      {query.isError && <Problem error={query.error} retry={() => void query.refetch()} />}
      {query.isSuccess && approvals.length === 0 && (
        <Empty icon={Inbox} title={state === "waiting" ? "Nothing needs you" : "There are none"}>
          {state === "waiting"
            ? "When an agent wants to do something that needs a yes, or asks a question, it shows up here and in the sidebar."
            : "What was decided this way will be listed here."}
        </Empty>
      )}
      {approvals.length > 0 && <List approvals={approvals} currentId={search.id} state={state} />}
      <More query={query} />
    </Page>
  );
}

interface ListProps {
  approvals: Approval[];
  currentId: string | undefined;
  state: Approval["state"];
}

function List({ approvals, currentId, state }: ListProps) {
  const navigate = useNavigate();
  const found = approvals.findIndex((each) => each.id === currentId);
  const at = found === -1 ? 0 : found;
  const current = approvals[at];
  const handle = useRef<ApprovalHandle>(null);
  const items = useRef<HTMLUListElement>(null);
  const move = (step: number) => {
    const next = approvals[Math.min(Math.max(at + step, 0), approvals.length - 1)];
    if (next) void navigate({ to: "/needs-you", search: { state, id: next.id }, replace: true });
  };
  useEffect(() => {
    if (currentId) items.current?.children[at]?.scrollIntoView({ block: "nearest" });
  }, [at, currentId]);
  const waiting = state === "waiting";
  useShortcut("j", "Next in the list", () => move(1));
  useShortcut("k", "Previous in the list", () => move(-1));
  useShortcut("a", "Approve, or answer", () => handle.current?.approve(), waiting);
  useShortcut("r", "Reject", () => handle.current?.reject(), waiting);
  return (
    <>
      <p className="hidden flex-wrap items-center gap-x-4 gap-y-1 text-xs text-faint md:flex">
        <span className="flex items-center gap-1.5">
          <Kbd keys="j" /> <Kbd keys="k" /> move
        </span>
        {waiting && (
          <>
            <span className="flex items-center gap-1.5">
              <Kbd keys="a" /> approve
            </span>
            <span className="flex items-center gap-1.5">
              <Kbd keys="r" /> reject
            </span>
          </>
        )}
      </p>
      <ul ref={items} className="grid gap-3">
        {approvals.map((approval) => (
          <li key={approval.id}>
            <ApprovalCard approval={approval} showOrigin current={approval === current} {...(approval === current ? { handle } : {})} />
          </li>
        ))}
      </ul>
    </>
  );
}
