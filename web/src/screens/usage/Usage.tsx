import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { ChartNoAxesColumn, Download, TriangleAlert } from "lucide-react";
import { useMemo } from "react";

import { $api } from "@/api/client";
import type { Schemas } from "@/api/types";
import { serverUrl } from "@/lib/base";
import { formatCount, plural } from "@/lib/format";
import { Page } from "@/shell/Page";
import { buttonClass, LinkButton } from "@/ui/Button";
import { Card, Figure } from "@/ui/Card";
import { CopyCurl } from "@/ui/Copy";
import { Empty } from "@/ui/Empty";
import { Problem } from "@/ui/Problem";
import { Skeleton } from "@/ui/Skeleton";
import { Choice } from "@/ui/Tabs";

import { Breakdown } from "./Breakdown";
import { formatCost } from "./cost";
import { DayCharts } from "./DayChart";
import { Budgets, Charges, Storage } from "./Money";
import { breakdownOf, type Breakdown as By, type Period, periodOf, PERIODS, rangeOf } from "./period";
import { daysOf } from "./series";

const route = getRouteApi("/inside/usage");

/** What models were used, what that cost, and how much of the budgets is left. */
export function Usage() {
  const search = route.useSearch();
  const navigate = useNavigate();
  const period = periodOf(search.days);
  const by = breakdownOf(search.by);
  const range = rangeOf(period);
  const usage = $api.useQuery("get", "/api/usage", { params: { query: { ...range, by: "day" } } });
  const go = (next: { period?: Period; by?: By }) => {
    const days = next.period ?? period;
    void navigate({ to: "/usage", search: { days: days === "month" ? undefined : Number(days), by: next.by ?? search.by }, replace: true });
  };
  const query = new URLSearchParams({ ...range, by }).toString();
  return (
    <Page
      wide
      title="Usage"
      note="What models were used for, and what it costs."
      actions={
        <>
          <CopyCurl method="GET" path={`/api/usage?${query}`} />
          <a href={serverUrl(`/api/usage/export.csv?${query}`)} download className={buttonClass()}>
            <Download size={15} aria-hidden />
            Export CSV
          </a>
        </>
      }
    >
      <div>
        <Choice label="Period" options={[...PERIODS]} value={period} onChange={(value) => go({ period: value })} />
      </div>
      {usage.isError && <Problem error={usage.error} retry={() => void usage.refetch()} />}
      {usage.isPending && <Loading />}
      {usage.data && <Report report={usage.data} range={range} by={by} onBreakdown={(value) => go({ by: value })} />}
    </Page>
  );
}

function Loading() {
  return (
    <div role="status" aria-label="Loading" className="grid gap-5">
      <Skeleton className="h-24" />
      <Skeleton className="h-80" />
      <Skeleton className="h-60" />
    </div>
  );
}

interface ReportProps {
  report: Schemas["UsageReport"];
  range: { from: string; to: string };
  by: By;
  onBreakdown: (by: By) => void;
}

function Report({ report, range, by, onBreakdown }: ReportProps) {
  const days = useMemo(() => daysOf(report), [report]);
  const side = (
    <div className="grid content-start gap-5">
      <Budgets />
      <Storage />
      {report.rated && report.rated.total_micros > 0 && <Charges rated={report.rated} />}
    </div>
  );
  if (report.totals.calls === 0) {
    return (
      <div className="grid items-start gap-5 lg:grid-cols-[minmax(0,2fr)_minmax(0,1fr)]">
        <Empty
          icon={ChartNoAxesColumn}
          title="No calls in this period"
          action={
            <LinkButton to="/sessions/new" look="primary">
              Start a session
            </LinkButton>
          }
        >
          Every call to a model is counted here: of sessions, of teams, and of your own programs.
        </Empty>
        {side}
      </div>
    );
  }
  return (
    <>
      <Totals totals={report.totals} />
      {report.unknown_prices && <UnknownPrices count={report.totals.unpriced_calls} />}
      <DayCharts days={days} />
      <div className="grid items-start gap-5 xl:grid-cols-[minmax(0,2fr)_minmax(0,1fr)]">
        <Breakdown range={range} by={by} onChange={onBreakdown} />
        {side}
      </div>
    </>
  );
}

function Totals({ totals }: { totals: Schemas["UsageTotals"] }) {
  const failed = totals.failed_calls === 0 ? "none failed" : `${plural(totals.failed_calls, "call")} failed`;
  return (
    <Card className="p-4">
      <dl className="grid grid-cols-2 gap-x-4 gap-y-5 sm:grid-cols-3 lg:grid-cols-5">
        <Figure name="Cost" value={formatCost(totals.cost_micros, totals.unpriced_calls)} note="what providers charge" />
        <Figure name="Calls" value={formatCount(totals.calls)} note={totals.failed_calls > 0 ? <span className="text-bad">{failed}</span> : failed} />
        <Figure name="Tokens in" value={formatCount(totals.input_tokens)} note="with those of the cache" />
        <Figure
          name="Of them in a cache"
          value={formatCount(totals.cache_read_tokens + totals.cache_write_tokens)}
          note={`${formatCount(totals.cache_read_tokens)} read, ${formatCount(totals.cache_write_tokens)} written`}
        />
        <Figure
          name="Tokens out"
          value={formatCount(totals.output_tokens)}
          note={totals.reasoning_tokens > 0 ? `${formatCount(totals.reasoning_tokens)} of them thinking` : undefined}
        />
      </dl>
    </Card>
  );
}

function UnknownPrices({ count }: { count: number }) {
  return (
    <div className="flex items-start gap-3 rounded-lg border border-line bg-warn-soft p-3.5 text-sm">
      <TriangleAlert size={18} className="mt-0.5 shrink-0 text-warn" aria-hidden />
      <p className="text-soft">
        <strong className="font-medium text-ink">The price of {plural(count, "call")} is not known,</strong> so costs are at least what is shown. You can{" "}
        <Link to="/settings/$section" params={{ section: "providers" }} className="text-accent-ink underline">
          set prices of your own
        </Link>
        ; they count from then on.
      </p>
    </div>
  );
}
