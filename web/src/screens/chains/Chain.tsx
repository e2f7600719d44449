import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { Ban, RotateCcw } from "lucide-react";
import { lazy, Suspense, useMemo, useState } from "react";

import { $api } from "@/api/client";
import { useMay } from "@/api/session";
import type { Schemas } from "@/api/types";
import { formatDuration, formatMoney } from "@/lib/format";
import { Page } from "@/shell/Page";
import { Button } from "@/ui/Button";
import { Card, Figure, Section } from "@/ui/Card";
import { CopyCurl } from "@/ui/Copy";
import { Confirm } from "@/ui/Dialog";
import { Problem } from "@/ui/Problem";
import { Skeleton } from "@/ui/Skeleton";
import { ChainBadge } from "@/ui/states";
import { Cell, Table } from "@/ui/Table";
import { Choice } from "@/ui/Tabs";
import { Time } from "@/ui/Time";
import { tellProblem } from "@/ui/toasts";

const Graph = lazy(() => import("./Graph"));

const route = getRouteApi("/inside/chains/$chainId");
const CRUMBS = [{ name: "Chains", link: { to: "/chains" } as const }];
type Node = Schemas["NodeRead"];
type Costs = Map<string, number>;

export function Chain() {
  const { chainId } = route.useParams();
  const search = route.useSearch();
  const params = { path: { chain_id: chainId } };
  const query = $api.useQuery("get", "/api/chains/{chain_id}", { params });
  const sessions = $api.useQuery("get", "/api/sessions", { params: { query: { chain_id: chainId, limit: 200 } } });
  const costs: Costs = useMemo(() => new Map(sessions.data?.items.map((each) => [each.id, each.cost_micros])), [sessions.data]);
  const navigate = useNavigate();
  const go = (next: { view?: string; node?: string }) =>
    void navigate({ to: "/chains/$chainId", params: { chainId }, search: { ...search, ...next }, replace: true });
  if (query.isError) {
    return (
      <Page title="Chain" crumbs={CRUMBS}>
        <Problem error={query.error} retry={() => void query.refetch()} />
      </Page>
    );
  }
  const chain = query.data;
  if (!chain) {
    return (
      <Page title="Chain" crumbs={CRUMBS}>
        <Skeleton className="h-24" />
        <Skeleton className="h-[28rem]" />
      </Page>
    );
  }
  const chosen = chain.nodes.find((node) => node.id === search.node);
  const list = search.view === "list";
  return (
    <Page
      wide
      title={chain.name}
      crumbs={CRUMBS}
      heading={
        <>
          {chain.name} <ChainBadge state={chain.state} />
        </>
      }
      note={chain.error}
      actions={<Actions chain={chain} />}
    >
      <Card className="p-4">
        <dl className="grid grid-cols-2 gap-4 sm:grid-cols-4">
          <Figure name="Nodes ended" value={`${chain.nodes_ended} of ${chain.nodes_total}`} />
          <Figure name="Cost" value={formatMoney([...costs.values()].reduce((sum, cost) => sum + cost, 0))} />
          <Figure name="Took" value={took(chain) ?? "not started"} />
          <Figure name="Created" value={<Time at={chain.created_at} />} />
        </dl>
      </Card>
      <div className="flex flex-wrap items-center justify-between gap-3">
        <h2 className="text-base font-semibold">Nodes</h2>
        <Choice
          label="Shown as"
          value={list ? "list" : "graph"}
          options={[
            { value: "graph", name: "Graph" },
            { value: "list", name: "List" },
          ]}
          onChange={(view) => go({ view })}
        />
      </div>
      {list ? (
        <NodeTable nodes={chain.nodes} costs={costs} onChoose={(node) => go({ node })} />
      ) : (
        <Suspense fallback={<Skeleton className="h-[28rem]" />}>
          <Graph nodes={chain.nodes.map((node) => ({ ...node, note: noteOf(node, costs) }))} chosen={chosen?.id} onChoose={(node) => go({ node })} />
        </Suspense>
      )}
      {chosen && <NodeDetail key={chosen.id} chainId={chainId} node={chosen} costs={costs} ended={chain.finished_at !== null} />}
      {chain.output !== null && chain.output !== undefined && (
        <Section title="What it came to">
          <pre tabIndex={0} className="max-h-96 overflow-auto text-sm whitespace-pre-wrap">
            {pretty(chain.output)}
          </pre>
        </Section>
      )}
    </Page>
  );
}

function took(thing: { started_at: string | null; finished_at: string | null }): string | undefined {
  if (!thing.started_at) return undefined;
  const end = thing.finished_at ? new Date(thing.finished_at).getTime() : Date.now();
  return formatDuration(end - new Date(thing.started_at).getTime());
}

function sessionsOf(node: Node): string[] {
  const items = node.items?.map((item) => item.session_id) ?? [];
  return [node.session_id, ...items].filter((id): id is string => typeof id === "string");
}

function costOf(node: Node, costs: Costs): number {
  return sessionsOf(node).reduce((sum, id) => sum + (costs.get(id) ?? 0), 0);
}

function noteOf(node: Node, costs: Costs): string {
  const items = node.items ? `${node.items.filter((item) => item.finished_at).length}/${node.items.length}` : undefined;
  return [items, took(node), node.started_at ? formatMoney(costOf(node, costs)) : undefined].filter(Boolean).join(" · ");
}

function pretty(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

function NodeTable({ nodes, costs, onChoose }: { nodes: Node[]; costs: Costs; onChoose: (id: string) => void }) {
  return (
    <Table label="Nodes" head={["Node", "State", "Needs", "Tries", "Took", "Cost", "Session"]}>
      {nodes.map((node) => (
        <tr key={node.id}>
          <Cell>
            <button type="button" onClick={() => onChoose(node.id)} className="rounded-sm font-medium text-accent-ink underline">
              {node.id}
            </button>
          </Cell>
          <Cell>
            <ChainBadge state={node.state} />
          </Cell>
          <Cell className="text-soft">{node.needs.join(", ")}</Cell>
          <Cell numeric>{node.tries}</Cell>
          <Cell numeric>{took(node)}</Cell>
          <Cell numeric>{formatMoney(costOf(node, costs))}</Cell>
          <Cell>
            <SessionLink id={node.session_id} />
          </Cell>
        </tr>
      ))}
    </Table>
  );
}

function SessionLink({ id }: { id: string | null }) {
  if (!id) return null;
  return (
    <Link to="/sessions/$sessionId" params={{ sessionId: id }} className="text-accent-ink underline">
      Open its session
    </Link>
  );
}

interface DetailProps {
  chainId: string;
  node: Node;
  costs: Costs;
  ended: boolean;
}

function NodeDetail({ chainId, node, costs, ended }: DetailProps) {
  const retry = $api.useMutation("post", "/api/chains/{chain_id}/retry", { onError: tellProblem });
  const may = useMay("sessions:write");
  return (
    <Section
      title={`Node ${node.id}`}
      note={noteOf(node, costs)}
      actions={
        may &&
        ended && (
          <Button
            size="small"
            icon={<RotateCcw size={14} />}
            busy={retry.isPending}
            onClick={() => retry.mutate({ params: { path: { chain_id: chainId } }, body: { node: node.id } })}
          >
            Run it and all after it again
          </Button>
        )
      }
    >
      <div className="grid gap-3 text-sm">
        <div className="flex items-center gap-3">
          <ChainBadge state={node.state} />
          <SessionLink id={node.session_id} />
        </div>
        {node.error && <p className="text-bad">{node.error}</p>}
        {node.output !== null && node.output !== undefined && (
          <pre tabIndex={0} className="max-h-80 overflow-auto rounded-md bg-sunken p-3 whitespace-pre-wrap">
            {pretty(node.output)}
          </pre>
        )}
        {node.truncated && <p className="text-faint">It is longer than what is shown here; its session has all of it.</p>}
        {node.items && (
          <Table label={`Items of ${node.id}`} head={["Item", "State", "Tries", "Took", "Session", "Came to"]}>
            {node.items.map((item) => (
              <tr key={item.item}>
                <Cell numeric>{item.item + 1}</Cell>
                <Cell>
                  <ChainBadge state={item.state} />
                </Cell>
                <Cell numeric>{item.tries}</Cell>
                <Cell numeric>{took(item)}</Cell>
                <Cell>
                  <SessionLink id={item.session_id} />
                </Cell>
                <Cell className="max-w-80 truncate text-soft">{item.error ?? (item.output === null ? "" : pretty(item.output))}</Cell>
              </tr>
            ))}
          </Table>
        )}
      </div>
    </Section>
  );
}

function Actions({ chain }: { chain: Schemas["ChainDetails"] }) {
  const [cancelling, setCancelling] = useState(false);
  const may = useMay("sessions:write");
  const params = { path: { chain_id: chain.id } };
  const cancel = $api.useMutation("post", "/api/chains/{chain_id}/cancel", { onSuccess: () => setCancelling(false) });
  const retry = $api.useMutation("post", "/api/chains/{chain_id}/retry", { onError: tellProblem });
  const run = $api.useMutation("post", "/api/chains/{chain_id}/run", { onError: tellProblem });
  return (
    <>
      <CopyCurl method="GET" path={`/api/chains/${chain.id}`} />
      {may && chain.state === "CREATED" && (
        <Button look="primary" busy={run.isPending} onClick={() => run.mutate({ params })}>
          Run
        </Button>
      )}
      {may && chain.state === "RUNNING" && (
        <Button icon={<Ban size={15} />} onClick={() => setCancelling(true)}>
          Cancel
        </Button>
      )}
      {may && chain.state === "FAILED" && (
        <Button look="primary" icon={<RotateCcw size={15} />} busy={retry.isPending} onClick={() => retry.mutate({ params, body: {} })}>
          Run what failed again
        </Button>
      )}
      {cancelling && (
        <Confirm
          title="Cancel this chain"
          action="Cancel the chain"
          danger
          busy={cancel.isPending}
          error={cancel.error}
          onConfirm={() => cancel.mutate({ params })}
          onClose={() => setCancelling(false)}
        >
          <p>Nodes that run are stopped, and those that wait will not begin. What is done stays.</p>
        </Confirm>
      )}
    </>
  );
}
