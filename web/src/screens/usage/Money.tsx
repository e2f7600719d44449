import { Wallet } from "lucide-react";

import { $api } from "@/api/client";
import { useMay } from "@/api/session";
import type { Schemas } from "@/api/types";
import { formatBytes, formatCount, formatDuration, formatMoney, plural } from "@/lib/format";
import { LinkButton } from "@/ui/Button";
import { Section } from "@/ui/Card";
import { Meter } from "@/ui/Meter";
import { Problem } from "@/ui/Problem";
import { SkeletonRows } from "@/ui/Skeleton";

import { BudgetLine, useBudgetName } from "./BudgetLine";
import { useTeamNames } from "./names";

/** The hard caps of the tenant and its teams. */
export function Budgets() {
  const budgets = $api.useQuery("get", "/api/budgets", { params: { query: { limit: 200 } } });
  const maySet = useMay("budgets:write");
  const shown = budgets.data?.items.filter((budget) => budget.scope !== "session") ?? [];
  const names = useTeamNames(shown.filter((budget) => budget.scope === "team").map((budget) => budget.subject_id));
  const nameOf = useBudgetName();
  return (
    <Section
      title="Budgets"
      actions={
        <LinkButton to="/settings/$section" params={{ section: "budgets" }} size="small" look="quiet" icon={<Wallet size={14} />}>
          {maySet ? "Set budgets" : "All budgets"}
        </LinkButton>
      }
    >
      {budgets.isPending && <SkeletonRows rows={2} className="h-12" />}
      {budgets.isError && <Problem error={budgets.error} retry={() => void budgets.refetch()} />}
      {budgets.isSuccess && shown.length === 0 && (
        <p className="text-sm text-soft">No budget is set. A budget is a hard cap: calls that would go over it wait instead of spending.</p>
      )}
      <ul className="grid gap-5">
        {shown.map((budget) => (
          <li key={budget.id}>
            <BudgetLine budget={budget} name={nameOf(budget, names)} linked={budget.scope === "team" && typeof names.get(budget.subject_id) === "string"} />
          </li>
        ))}
      </ul>
    </Section>
  );
}

/** Stored files against what the plan allows. */
export function Storage() {
  const storage = $api.useQuery("get", "/api/usage/storage");
  return (
    <Section title="Storage">
      {storage.isPending && <SkeletonRows rows={1} className="h-12" />}
      {storage.isError && <Problem error={storage.error} retry={() => void storage.refetch()} />}
      {storage.data && (
        <div className="grid gap-2">
          <p className="flex justify-between gap-3 text-sm">
            <span className="font-medium">{plural(storage.data.objects, "file")}</span>
            <span className="text-soft tabular">
              {formatBytes(storage.data.bytes)}
              {storage.data.allowed !== null && ` of ${formatBytes(storage.data.allowed)}`}
            </span>
          </p>
          {storage.data.allowed !== null ? (
            <Meter label="Storage used" value={storage.data.bytes} max={storage.data.allowed} />
          ) : (
            <p className="text-xs text-faint">The plan sets no limit.</p>
          )}
        </div>
      )}
    </Section>
  );
}

/** What AgentOS itself charges for the period: not the same as what providers charge. */
export function Charges({ rated }: { rated: Schemas["Rated"] }) {
  const lines = [
    { name: "Tokens", note: "what providers charge, and 15 %", micros: rated.tokens_micros },
    { name: "Compute", note: formatDuration(rated.compute_seconds * 1000), micros: rated.compute_micros },
    { name: "Storage", note: `${formatBytes(rated.storage_byte_hours)} for an hour`, micros: rated.storage_micros },
    {
      name: "API calls",
      note: `${formatCount(rated.api_calls)}, ${formatCount(rated.api_calls_over_plan)} beyond the plan`,
      micros: rated.api_calls_micros,
    },
  ];
  return (
    <Section title="What AgentOS charges" note="For the whole tenant in this period.">
      <dl className="grid gap-2 text-sm">
        {lines.map((line) => (
          <div key={line.name} className="flex items-baseline justify-between gap-3">
            <dt>
              {line.name} <span className="text-xs text-faint">{line.note}</span>
            </dt>
            <dd className="tabular">{formatMoney(line.micros)}</dd>
          </div>
        ))}
        <div className="flex justify-between gap-3 border-t border-line pt-2 font-semibold">
          <dt>In all</dt>
          <dd className="tabular">{formatMoney(rated.total_micros)}</dd>
        </div>
      </dl>
    </Section>
  );
}
