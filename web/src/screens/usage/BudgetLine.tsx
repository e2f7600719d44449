import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

import { useMe } from "@/api/session";
import type { Schemas } from "@/api/types";
import { formatMoney } from "@/lib/format";
import { Badge } from "@/ui/Badge";
import { Meter } from "@/ui/Meter";

import type { Names } from "./names";

type Budget = Schemas["BudgetRead"];

/** What a budget is for, by name. */
export function useBudgetName(): (budget: Budget, names: Names) => string {
  const me = useMe();
  return (budget, names) => {
    if (budget.scope === "tenant") return `${me.tenant_name}, all together`;
    const gone = budget.scope === "team" ? "A team that is not there" : "A session that is not there";
    const name = names.get(budget.subject_id);
    return name === undefined ? "…" : (name ?? gone);
  };
}

interface Props {
  budget: Budget;
  name: string;
  /** Whether what it is for can be opened. */
  linked: boolean;
  actions?: ReactNode;
}

/** A budget, how much of it is spent and held, and whether that is nearly all. */
export function BudgetLine({ budget, name, linked, actions }: Props) {
  return (
    <div className="grid gap-2">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
        <span className="min-w-0 truncate text-sm font-medium" title={name}>
          {linked ? <BudgetLink budget={budget} name={name} /> : name}
        </span>
        <BudgetState budget={budget} />
        <span className="ml-auto flex items-center gap-2">
          <span className="text-sm text-soft tabular">
            {formatMoney(budget.spent_micros)} of {formatMoney(budget.cap_micros)}
          </span>
          {actions}
        </span>
      </div>
      <Meter label={`Budget of ${name}`} value={budget.spent_micros + budget.held_micros} max={budget.cap_micros} />
      <p className="text-xs text-faint">
        {budget.period ? "Each month (UTC)" : "In all"}, {formatMoney(budget.remaining_micros)} left
        {budget.held_micros > 0 && `, ${formatMoney(budget.held_micros)} held for running calls`}
      </p>
    </div>
  );
}

function BudgetLink({ budget, name }: { budget: Budget; name: string }) {
  return budget.scope === "team" ? (
    <Link to="/teams/$teamId" params={{ teamId: budget.subject_id }} className="rounded-sm hover:underline">
      {name}
    </Link>
  ) : (
    <Link to="/sessions/$sessionId" params={{ sessionId: budget.subject_id }} className="rounded-sm hover:underline">
      {name}
    </Link>
  );
}

function BudgetState({ budget }: { budget: Budget }) {
  if (budget.state === "exhausted") return <Badge tone="bad">Used up</Badge>;
  if (budget.state === "warned") return <Badge tone="warn">{`${budget.percent} % spent`}</Badge>;
  return null;
}
