import { Link } from "@tanstack/react-router";
import { useState } from "react";

import { $api } from "@/api/client";
import type { Schemas } from "@/api/types";
import { formatCount } from "@/lib/format";
import { Button } from "@/ui/Button";
import { Section } from "@/ui/Card";
import { Problem } from "@/ui/Problem";
import { Skeleton, SkeletonRows } from "@/ui/Skeleton";
import { Cell, Table } from "@/ui/Table";
import { Choice } from "@/ui/Tabs";

import { formatCost } from "./cost";
import { type Names, useSessionTitles, useTeamNames } from "./names";
import { type Breakdown as By, BREAKDOWNS } from "./period";

type Row = Schemas["UsageRow"];

const WORDS: Record<By, { name: string; none: string; gone: string }> = {
  model: { name: "Model", none: "No model", gone: "" },
  provider: { name: "Provider", none: "No provider", gone: "" },
  team: { name: "Team", none: "Outside of teams", gone: "A team that was deleted" },
  session: { name: "Session", none: "Outside of sessions", gone: "A session that was deleted" },
};
const STEP = 10;

interface Props {
  range: { from: string; to: string };
  by: By;
  onChange: (by: By) => void;
}

/** What took how much: the dearest first. */
export function Breakdown({ range, by, onChange }: Props) {
  const usage = $api.useQuery("get", "/api/usage", { params: { query: { ...range, by } } });
  return (
    <Section
      title="What took how much"
      note="The dearest first."
      actions={<Choice label="Broken down by" options={BREAKDOWNS.map((value) => ({ value, name: WORDS[value].name }))} value={by} onChange={onChange} />}
    >
      {usage.isPending && <SkeletonRows rows={4} className="h-10" />}
      {usage.isError && <Problem error={usage.error} retry={() => void usage.refetch()} />}
      {usage.data && <Rows key={by} by={by} rows={usage.data.rows} total={usage.data.totals.cost_micros} truncated={usage.data.truncated} />}
    </Section>
  );
}

function Rows({ by, rows, total, truncated }: { by: By; rows: Row[]; total: number | null; truncated: boolean }) {
  const [count, setCount] = useState(STEP);
  const shown = rows.slice(0, count);
  const keys = shown.flatMap((row) => row.key ?? []);
  const teams = useTeamNames(by === "team" ? keys : []);
  const sessions = useSessionTitles(by === "session" ? keys : []);
  if (rows.length === 0) return <p className="text-sm text-soft">No calls in this period.</p>;
  const numbers = ["Cost", "Share", "Calls", "Failed", "Tokens in", "Tokens out"];
  return (
    <div className="grid gap-2">
      <Table label={`Usage by ${by}`} head={[WORDS[by].name, ...numbers.map((name) => <span key={name} className="block text-right">{name}</span>)]}>
        {shown.map((row) => (
          <tr key={row.key ?? ""}>
            <Cell className="max-w-56 min-w-36">
              <Name by={by} row={row} names={by === "team" ? teams : sessions} />
            </Cell>
            <Cell numeric className="whitespace-nowrap">
              {formatCost(row.cost_micros, row.unpriced_calls)}
            </Cell>
            <Cell numeric className="whitespace-nowrap">
              {share(row.cost_micros, total)}
            </Cell>
            <Cell numeric>{formatCount(row.calls)}</Cell>
            <Cell numeric>{row.failed_calls > 0 ? <span className="text-bad">{formatCount(row.failed_calls)}</span> : "0"}</Cell>
            <Cell numeric>{formatCount(row.input_tokens)}</Cell>
            <Cell numeric>{formatCount(row.output_tokens)}</Cell>
          </tr>
        ))}
      </Table>
      {rows.length > count && (
        <Button className="justify-self-center" onClick={() => setCount(count + STEP)}>
          Show more
        </Button>
      )}
      {truncated && rows.length <= count && <p className="text-xs text-soft">There are more than 1,000 rows; the export has all of them.</p>}
    </div>
  );
}

function share(cost: number | null, total: number | null): string {
  if (cost === null || !total) return "";
  const percent = (cost / total) * 100;
  return percent > 0 && percent < 1 ? "under 1 %" : `${Math.round(percent)} %`;
}

function Name({ by, row, names }: { by: By; row: Row; names: Names }) {
  if (row.key === null) return <span className="text-soft">{WORDS[by].none}</span>;
  if (by === "model" || by === "provider") return <span className="break-words">{row.key}</span>;
  const name = names.get(row.key);
  if (name === undefined) return <Skeleton className="h-5 w-40" />;
  if (name === null) return <span className="text-soft">{WORDS[by].gone}</span>;
  const look = "block truncate rounded-sm font-medium hover:underline";
  return by === "team" ? (
    <Link to="/teams/$teamId" params={{ teamId: row.key }} className={look} title={name}>
      {name}
    </Link>
  ) : (
    <Link to="/sessions/$sessionId" params={{ sessionId: row.key }} className={look} title={name}>
      {name}
    </Link>
  );
}
