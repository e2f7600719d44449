import { keepPreviousData } from "@tanstack/react-query";
import { ScrollText } from "lucide-react";
import { useState } from "react";

import { $api } from "@/api/client";
import { itemsOf, paged } from "@/api/paging";
import type { Schemas } from "@/api/types";
import { formatMoment } from "@/lib/format";
import { Badge, type Tone } from "@/ui/Badge";
import { CopyCurl } from "@/ui/Copy";
import { Empty } from "@/ui/Empty";
import { Checkbox } from "@/ui/Field";
import { More } from "@/ui/More";
import { Problem } from "@/ui/Problem";
import { SkeletonRows } from "@/ui/Skeleton";
import { Choice } from "@/ui/Tabs";

import type { TeamDetails } from "../teamQueries";

type LogRead = Schemas["LogRead"];
type Level = LogRead["level"];

const LEVELS: Record<Level, { word: string; tone: Tone }> = {
  info: { word: "Info", tone: "calm" },
  warning: { word: "Warning", tone: "warn" },
  error: { word: "Error", tone: "bad" },
};
// What an agent CLI prints makes no event.
const ASK_AGAIN = 3000;

/** What the team lived through and what its agent CLI printed, newest first. */
export function LogsTab({ team }: { team: TeamDetails }) {
  const [level, setLevel] = useState<Level>("info");
  const [follow, setFollow] = useState(true);
  const query = $api.useInfiniteQuery(
    "get",
    "/api/teams/{team_id}/logs",
    { params: { path: { team_id: team.id }, query: { level, limit: 100 } } },
    // Not while the window is hidden: that is the client's default.
    { ...paged, placeholderData: keepPreviousData, refetchInterval: follow ? ASK_AGAIN : false },
  );
  const lines = itemsOf(query.data);
  return (
    <div className="grid gap-3">
      <div className="flex flex-wrap items-center gap-x-4 gap-y-2">
        <Choice
          label="Level"
          value={level}
          onChange={setLevel}
          options={[
            { value: "info", name: "Everything" },
            { value: "warning", name: "Warnings and errors" },
            { value: "error", name: "Errors" },
          ]}
        />
        <Checkbox label="Follow" checked={follow} onChange={(event) => setFollow(event.target.checked)} />
        <span className="flex-1" />
        <CopyCurl method="GET" path={`/api/teams/${team.id}/logs?level=${level}&limit=100`} />
      </div>
      {query.isError && <Problem error={query.error} retry={() => void query.refetch()} />}
      {query.isPending && <SkeletonRows rows={8} className="h-8" />}
      {query.isSuccess && lines.length === 0 && (
        <Empty icon={ScrollText} title={level === "info" ? "Nothing in the log" : "Nothing as bad as that"}>
          {level === "info" ? "Deploy the team, and what it lives through is here." : "No line of this level or worse."}
        </Empty>
      )}
      {lines.length > 0 && (
        <ol className="divide-y divide-line overflow-hidden rounded-lg border border-line bg-surface">
          {lines.map((line) => (
            <Line key={line.id} line={line} />
          ))}
        </ol>
      )}
      <More query={query} />
      <p className="text-xs text-faint">The newest 1,000 lines are kept. Secrets are masked.</p>
    </div>
  );
}

function Line({ line }: { line: LogRead }) {
  const look = LEVELS[line.level];
  return (
    <li className="flex flex-wrap items-start gap-x-3 gap-y-1 px-3 py-1.5 text-xs sm:grid sm:grid-cols-[10.5rem_4.5rem_3.5rem_minmax(0,1fr)]">
      <time dateTime={line.at} title={formatMoment(line.at)} className="pt-0.5 font-mono text-soft tabular">
        {clock(line.at)}
      </time>
      <span>
        <Badge tone={look.tone}>{look.word}</Badge>
      </span>
      <span className="pt-0.5 text-soft">{line.source}</span>
      <span className="min-w-0 pt-0.5 font-mono break-words max-sm:w-full whitespace-pre-wrap text-ink">{line.text}</span>
    </li>
  );
}

/** To the millisecond, in the reader's time zone: lines of one second are told apart. */
function clock(at: string): string {
  return new Date(at).toLocaleString("en-US", { month: "short", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hourCycle: "h23" });
}
