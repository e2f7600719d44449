import { lazy, type ReactNode, Suspense, useCallback, useMemo, useState } from "react";

import { formatCount, plural } from "@/lib/format";
import { Section } from "@/ui/Card";
import { Skeleton } from "@/ui/Skeleton";
import { Cell, Table } from "@/ui/Table";
import { Choice } from "@/ui/Tabs";

import type { Stripe } from "./Bars";
import { formatCost } from "./cost";
import { longDay, shortDay } from "./period";
import type { Day } from "./series";

const Bars = lazy(() => import("./Bars"));

const DOTS: Record<Stripe["colour"], string> = { accent: "bg-accent", "line-strong": "bg-line-strong", good: "bg-good" };

/** What each day cost and which tokens it took: as bars, or as a table. */
export function DayCharts({ days }: { days: Day[] }) {
  const [look, setLook] = useState<"bars" | "table">("bars");
  return (
    <Section
      title="By day"
      note="Days are counted in UTC."
      actions={
        <Choice
          label="Show as"
          options={[
            { value: "bars", name: "Chart" },
            { value: "table", name: "Table" },
          ]}
          value={look}
          onChange={setLook}
        />
      }
    >
      {look === "table" ? (
        <DayTable days={days} />
      ) : (
        <div className="grid gap-6 lg:grid-cols-2">
          <CostChart days={days} />
          <TokenChart days={days} />
        </div>
      )}
    </Section>
  );
}

const asDollars = (value: number) => `$${value.toLocaleString("en-US", { maximumFractionDigits: value < 0.1 ? 4 : 2 })}`;

function CostChart({ days }: { days: Day[] }) {
  const stripes = useMemo<Stripe[]>(() => [{ name: "Cost", colour: "accent", values: days.map((day) => (day.cost ?? 0) / 1_000_000) }], [days]);
  const sum = days.reduce((total, day) => total + (day.cost ?? 0), 0);
  const unpriced = days.reduce((total, day) => total + day.unpriced, 0);
  return (
    <Chart
      title="Cost"
      days={days}
      stripes={stripes}
      format={asDollars}
      whole={formatCost(sum, unpriced)}
      tell={(day) => `${formatCost(day.cost, day.unpriced)}, ${plural(day.calls, "call")}`}
    />
  );
}

function TokenChart({ days }: { days: Day[] }) {
  const stripes = useMemo<Stripe[]>(
    () => [
      { name: "New in", colour: "accent", values: days.map((day) => day.fresh) },
      { name: "Cache", colour: "line-strong", values: days.map((day) => day.cache) },
      { name: "Out", colour: "good", values: days.map((day) => day.output) },
    ],
    [days],
  );
  const sum = days.reduce((total, day) => total + day.fresh + day.cache + day.output, 0);
  return (
    <Chart
      title="Tokens"
      days={days}
      stripes={stripes}
      format={formatCount}
      whole={`${formatCount(sum)} in all`}
      tell={(day) => `${formatCount(day.fresh)} new in, ${formatCount(day.cache)} cache, ${formatCount(day.output)} out`}
    />
  );
}

interface ChartProps {
  title: string;
  days: Day[];
  stripes: Stripe[];
  format: (value: number) => string;
  whole: string;
  tell: (day: Day) => string;
}

function Chart({ title, days, stripes, format, whole, tell }: ChartProps) {
  const [at, setAt] = useState<number>();
  const names = useMemo(() => days.map((each) => shortDay(each.day)), [days]);
  const onPoint = useCallback((index: number | undefined) => setAt(index), []);
  const day = at === undefined ? undefined : days[at];
  return (
    <figure className="grid min-w-0 content-start gap-2">
      <figcaption className="flex min-h-6 flex-wrap content-start items-baseline max-sm:min-h-10 justify-between gap-x-4">
        <span className="text-sm font-medium">{title}</span>
        <span className="text-xs text-soft tabular">{day ? `${longDay(day.day)}: ${tell(day)}` : whole}</span>
      </figcaption>
      <Suspense fallback={<Skeleton className="h-[200px]" />}>
        <Bars label={`${title} by day, ${whole}. The table has the same figures.`} names={names} stripes={stripes} format={format} onPoint={onPoint} />
      </Suspense>
      {stripes.length > 1 && <Legend stripes={stripes} />}
    </figure>
  );
}

function Legend({ stripes }: { stripes: Stripe[] }): ReactNode {
  return (
    <ul className="flex flex-wrap gap-x-4 gap-y-1 text-xs text-soft">
      {stripes.map((stripe) => (
        <li key={stripe.name} className="flex items-center gap-1.5">
          <span aria-hidden className={`size-2.5 rounded-xs ${DOTS[stripe.colour]}`} />
          {stripe.name}
        </li>
      ))}
    </ul>
  );
}

const COLUMNS = ["Calls", "Failed", "New tokens in", "Cache", "Tokens out", "Cost"];

function DayTable({ days }: { days: Day[] }) {
  return (
    <Table
      label="Usage by day"
      head={["Day", ...COLUMNS.map((name) => <span key={name} className="block text-right">{name}</span>)]}
    >
      {days.toReversed().map((day) => (
        <tr key={day.day}>
          <Cell className="whitespace-nowrap">{longDay(day.day)}</Cell>
          <Cell numeric>{formatCount(day.calls)}</Cell>
          <Cell numeric>{formatCount(day.failed)}</Cell>
          <Cell numeric>{formatCount(day.fresh)}</Cell>
          <Cell numeric>{formatCount(day.cache)}</Cell>
          <Cell numeric>{formatCount(day.output)}</Cell>
          <Cell numeric className="whitespace-nowrap">
            {formatCost(day.cost, day.unpriced)}
          </Cell>
        </tr>
      ))}
    </Table>
  );
}
