import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { Plus, Waypoints } from "lucide-react";

import { $api } from "@/api/client";
import { itemsOf, paged } from "@/api/paging";
import { useMay } from "@/api/session";
import { Page } from "@/shell/Page";
import { LinkButton } from "@/ui/Button";
import { CopyCurl } from "@/ui/Copy";
import { Empty } from "@/ui/Empty";
import { SelectField } from "@/ui/Field";
import { Meter } from "@/ui/Meter";
import { More } from "@/ui/More";
import { Problem } from "@/ui/Problem";
import { SkeletonRows } from "@/ui/Skeleton";
import { CHAIN_STATES, ChainBadge } from "@/ui/states";
import { Time } from "@/ui/Time";

const route = getRouteApi("/inside/chains");
const STATES = ["CREATED", "RUNNING", "COMPLETE", "FAILED", "CANCELLED"] as const;

export function Chains() {
  const search = route.useSearch();
  const state = STATES.find((each) => each === search.state);
  const navigate = useNavigate();
  const mayRun = useMay("sessions:write");
  const query = $api.useInfiniteQuery("get", "/api/chains", { params: { query: { state, limit: 50 } } }, paged);
  const chains = itemsOf(query.data);
  const create = mayRun && (
    <LinkButton to="/chains/new" look="primary" icon={<Plus size={15} />}>
      New chain
    </LinkButton>
  );
  return (
    <Page
      title="Chains"
      note="Sessions that build upon each other: one hands its result to the next."
      actions={
        <>
          <CopyCurl method="GET" path={`/api/chains${state ? `?state=${state}` : ""}`} />
          {create}
        </>
      }
    >
      <SelectField
        hideLabel
        label="State"
        className="sm:w-48"
        value={state ?? ""}
        onChange={(event) => void navigate({ to: "/chains", search: event.target.value ? { state: event.target.value } : {}, replace: true })}
      >
        <option value="">Any state</option>
        {STATES.map((each) => (
          <option key={each} value={each}>
            {CHAIN_STATES[each].word}
          </option>
        ))}
      </SelectField>
      {query.isPending && <SkeletonRows rows={5} />}
      {query.isError && <Problem error={query.error} retry={() => void query.refetch()} />}
      {query.isSuccess && chains.length === 0 && (
        <Empty icon={Waypoints} title={state ? "No chain is in this state" : "No chain yet"} action={state ? <LinkButton to="/chains">Show all chains</LinkButton> : create}>
          {!state && "A chain is a small file: nodes with prompts, and which needs which. AgentOS runs them in order, several at once."}
        </Empty>
      )}
      {chains.length > 0 && (
        <ul className="grid divide-y divide-line overflow-hidden rounded-lg border border-line bg-surface shadow-card">
          {chains.map((chain) => (
            <li key={chain.id}>
              <Link
                to="/chains/$chainId"
                params={{ chainId: chain.id }}
                className="grid grid-cols-[minmax(0,1fr)_auto] items-center gap-x-4 gap-y-1 px-4 py-3 -outline-offset-2 hover:bg-hover md:grid-cols-[minmax(0,1fr)_10rem_7rem_8rem]"
              >
                <span className="min-w-0">
                  <span className="block truncate text-sm font-medium">{chain.name}</span>
                  {chain.error && <span className="block truncate text-xs text-bad">{chain.error}</span>}
                </span>
                <span className="hidden gap-1 md:grid">
                  <Meter label={`Nodes of ${chain.name} that have ended`} value={chain.nodes_ended} max={chain.nodes_total} warnAt={2} />
                  <span className="text-xs text-faint tabular">
                    {chain.nodes_ended} of {chain.nodes_total} nodes
                  </span>
                </span>
                <span>
                  <ChainBadge state={chain.state} />
                </span>
                <Time at={chain.created_at} className="hidden text-right text-xs text-faint md:block" />
              </Link>
            </li>
          ))}
        </ul>
      )}
      <More query={query} />
    </Page>
  );
}
