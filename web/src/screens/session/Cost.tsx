import { TriangleAlert } from "lucide-react";

import { $api } from "@/api/client";
import type { Schemas } from "@/api/types";
import { formatCount, formatDuration, formatMoney, plural } from "@/lib/format";
import { Figure, Section } from "@/ui/Card";
import { Meter } from "@/ui/Meter";
import { Problem } from "@/ui/Problem";
import { Skeleton } from "@/ui/Skeleton";
import { Cell, Table } from "@/ui/Table";

type SessionCost = Schemas["SessionCost"];

function useCost(sessionId: string) {
  return $api.useQuery("get", "/api/sessions/{session_id}/cost", { params: { path: { session_id: sessionId } } });
}

/** How much of its budget a session has used; nothing if it has none. */
export function BudgetMeter({ sessionId }: { sessionId: string }) {
  const budget = useCost(sessionId).data?.budget;
  if (!budget) return null;
  return (
    <div className="min-w-52 flex-1 md:max-w-64">
      <Budget budget={budget} />
    </div>
  );
}

function Budget({ budget }: { budget: NonNullable<SessionCost["budget"]> }) {
  const share = budget.cap_micros > 0 ? budget.spent_micros / budget.cap_micros : 1;
  return (
    <div className="grid gap-1.5">
      <p className="flex flex-wrap items-baseline justify-between gap-x-3 text-xs text-soft">
        <span>
          Budget: <strong className="tabular text-ink">{formatMoney(budget.spent_micros)}</strong> of {formatMoney(budget.cap_micros)}
        </span>
        <span className="tabular">{formatMoney(budget.left_micros)} left</span>
      </p>
      <Meter label="Budget used" value={budget.spent_micros} max={budget.cap_micros} />
      {share >= 0.8 && (
        <p className="flex items-center gap-1.5 text-xs font-medium text-warn">
          <TriangleAlert size={13} aria-hidden />
          {share >= 1 ? "The budget is used up: the session pauses until it is raised." : `${Math.floor(share * 100)} % of the budget is used.`}
        </p>
      )}
    </div>
  );
}

const HEAD = [
  "Model",
  ...["Calls", "Tokens in", "From cache", "Tokens out", "Cost", "Charged"].map((name) => (
    <span key={name} className="block text-right">
      {name}
    </span>
  )),
];

/** What a session costs, by model, with its sub-agents. */
export function Cost({ sessionId }: { sessionId: string }) {
  const { data, error, refetch } = useCost(sessionId);
  if (error) return <Problem error={error} retry={() => void refetch()} />;
  if (!data) return <Skeleton className="h-72" />;
  const unknown = data.own.unpriced_calls + data.sub_agents.unpriced_calls;
  return (
    <div className="grid gap-5">
      <Section title="Cost" note="From the ledger. What rollbacks have undone stays spent.">
        <dl className="grid grid-cols-2 gap-4 md:grid-cols-4">
          <Figure name="In all, as charged" value={formatMoney(data.total_micros)} note={unknown ? `at least: ${plural(unknown, "call")} without a price` : "with compute and sub-agents"} />
          <Figure name="Model calls" value={formatMoney(data.own.cost_micros)} note={`${plural(data.own.calls, "call")}, ${formatCount(data.own.tokens)} tokens`} />
          <Figure name="Compute" value={formatMoney(data.own.compute.rated_micros)} note={formatDuration(data.own.compute.seconds * 1000)} />
          <Figure name="Sub-agents" value={formatMoney(data.sub_agents.total_micros)} note={plural(data.sub_agents.sessions, "session")} />
        </dl>
        {data.steps.undone_micros > 0 && <p className="mt-4 text-sm text-soft">{formatMoney(data.steps.undone_micros)} of it went into steps that were undone.</p>}
        {data.budget && (
          <div className="mt-5">
            <Budget budget={data.budget} />
          </div>
        )}
      </Section>
      {data.models.length > 0 && (
        <Table label="Cost by model" head={HEAD}>
          {data.models.map((row) => (
            <tr key={`${row.provider}/${row.model}`}>
              <Cell className="font-medium">
                {row.provider}/{row.model}
                {row.failed_calls > 0 && <span className="ml-2 text-xs font-normal text-bad">{row.failed_calls} failed</span>}
              </Cell>
              <Cell numeric>{formatCount(row.calls)}</Cell>
              <Cell numeric>{formatCount(row.input_tokens)}</Cell>
              <Cell numeric>{formatCount(row.cache_read_tokens)}</Cell>
              <Cell numeric>{formatCount(row.output_tokens)}</Cell>
              <Cell numeric>{formatMoney(row.cost_micros)}</Cell>
              <Cell numeric>{formatMoney(row.rated_micros)}</Cell>
            </tr>
          ))}
        </Table>
      )}
    </div>
  );
}
