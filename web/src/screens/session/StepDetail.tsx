import { useQuery } from "@tanstack/react-query";
import { Download, GitFork, Link2, Undo2 } from "lucide-react";
import { useState } from "react";

import { $api, fetchApi } from "@/api/client";
import { serverUrl } from "@/lib/base";
import { formatBytes, formatCount, formatDuration, formatMoment, formatMoney } from "@/lib/format";
import { Badge } from "@/ui/Badge";
import { Button, buttonClass } from "@/ui/Button";
import { copyText, CopyButton } from "@/ui/Copy";
import { Problem } from "@/ui/Problem";
import { Skeleton } from "@/ui/Skeleton";
import { tell } from "@/ui/toasts";

import type { Allowed } from "./actions";
import { Block, JsonBlock } from "./Block";
import type { Step } from "./journal";
import { KINDS } from "./kinds";
import { StepBody } from "./StepBody";
import { excerptOf, field, nameOf, textIn } from "./steps";

// Beyond this an output is downloaded instead of shown.
const MOST_SHOWN = 5_000_000;
// Steps up to this size are shown whole without asking.
const SMALL = 300_000;

interface Props {
  sessionId: string;
  step: Step;
  allowed: Allowed;
  onFork: (seq: number) => void;
  onRollBack: (seq: number) => void;
}

/** One step: what it was, what went in, what came out, and what can be done from there. */
export function StepDetail({ sessionId, step, allowed, onFork, onRollBack }: Props) {
  const look = KINDS[step.kind];
  return (
    <section aria-label={`Step ${step.seq}: ${nameOf(step)}`} className="grid content-start gap-4 p-4">
      <header className="grid gap-2">
        <div className="flex items-start justify-between gap-3">
          <h2 className="flex min-w-0 items-center gap-2 text-base font-semibold">
            <look.icon size={18} aria-hidden className={`shrink-0 ${look.ink}`} />
            <span className="min-w-0 break-words">{nameOf(step)}</span>
          </h2>
          <span className="flex shrink-0 gap-1">
            <CopyButton text={JSON.stringify(step.output, null, 2)} label="Copy output" />
            <Button size="small" look="quiet" aria-label="Copy link to this step" title="Copy link to this step" onClick={() => copyLink(step.seq)}>
              <Link2 size={14} />
            </Button>
          </span>
        </div>
        <div className="flex flex-wrap items-center gap-2">
          <Badge>Step {step.seq}</Badge>
          <Badge>{look.word}</Badge>
          <StatusBadge step={step} />
          {!step.in_force && <Badge title="A rollback went back behind it">undone</Badge>}
        </div>
        <Facts step={step} />
      </header>
      <Content key={step.seq} sessionId={sessionId} step={step} />
      <div className="flex flex-wrap gap-2 border-t border-line pt-4 empty:hidden">
        {allowed.fork && (
          <Button size="small" icon={<GitFork size={14} />} onClick={() => onFork(step.seq)}>
            Fork from here
          </Button>
        )}
        {allowed.rollback && (
          <Button
            size="small"
            icon={<Undo2 size={14} />}
            disabled={allowed.rollback.blocked !== undefined}
            title={allowed.rollback.blocked}
            onClick={() => onRollBack(step.seq)}
          >
            Roll back to here
          </Button>
        )}
      </div>
    </section>
  );
}

function copyLink(seq: number): void {
  const address = new URL(location.href);
  address.search = `?step=${seq}`;
  void copyText(address.href).then(() => tell("The link to this step is copied."));
}

export function StatusBadge({ step }: { step: Step }) {
  if (step.status === "failed") return <Badge tone="bad">Failed</Badge>;
  if (step.status === "uncertain") {
    return (
      <Badge tone="warn" title="It may have happened, and was not made again">
        Uncertain
      </Badge>
    );
  }
  return null;
}

function Facts({ step }: { step: Step }) {
  const tokens = step.input_tokens + step.output_tokens;
  const facts: [string, string][] = [["At", formatMoment(step.at)]];
  if (step.duration_ms > 0) facts.push(["Took", formatDuration(step.duration_ms)]);
  if (tokens > 0) facts.push(["Tokens", `${formatCount(step.input_tokens)} in, ${formatCount(step.output_tokens)} out`]);
  if (step.cost_micros !== null) facts.push(["Cost", formatMoney(step.cost_micros)]);
  return (
    <dl className="flex flex-wrap gap-x-5 gap-y-1 text-xs">
      {facts.map(([name, value]) => (
        <div key={name} className="flex gap-1.5">
          <dt className="text-faint">{name}</dt>
          <dd className="tabular text-soft">{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** The content of a step; what is too large for a list is fetched, if it is large only when asked. */
function Content({ sessionId, step }: { sessionId: string; step: Step }) {
  const size = bytesOf(step.input) + bytesOf(step.output);
  const [wanted, setWanted] = useState(size < SMALL);
  const whole = $api.useQuery(
    "get",
    "/api/sessions/{session_id}/steps/{seq}",
    { params: { path: { session_id: sessionId, seq: step.seq } } },
    // A step never changes, however many events say that the session has.
    { enabled: step.truncated && wanted, staleTime: "static" },
  );
  if (!step.truncated) return <Whole sessionId={sessionId} step={step} />;
  if (whole.data) return <Whole sessionId={sessionId} step={{ ...whole.data, in_force: step.in_force }} />;
  if (whole.error) return <Problem error={whole.error} retry={() => void whole.refetch()} />;
  if (wanted) return <Skeleton className="h-40" />;
  return (
    <div className="grid gap-3">
      <p className="flex flex-wrap items-center justify-between gap-2 text-sm text-soft">
        This is the beginning of {formatBytes(size)}.
        <Button size="small" onClick={() => setWanted(true)}>
          Show everything
        </Button>
      </p>
      <JsonBlock label="Input" value={excerptOf(step.input) || step.input} />
      <JsonBlock label="Output" value={excerptOf(step.output) || step.output} />
    </div>
  );
}

function Whole({ sessionId, step }: { sessionId: string; step: Step }) {
  return (
    <>
      <StepBody step={step} />
      {textIn(step.output, "whole") && <AllOutput sessionId={sessionId} step={step} />}
      <details>
        <summary className="w-fit py-1 text-xs text-faint hover:text-ink">As the API has it</summary>
        <div className="pt-2">
          <JsonBlock label="Step" value={step} />
        </div>
      </details>
    </>
  );
}

/** All that a tool has put out, where the model was shown only the beginning and the end of it. */
function AllOutput({ sessionId, step }: { sessionId: string; step: Step }) {
  const [wanted, setWanted] = useState(false);
  const address = serverUrl(`/api/sessions/${sessionId}/steps/${step.seq}/whole`);
  const size = field(step.output, "output_bytes");
  const bytes = typeof size === "number" ? size : undefined;
  const all = useQuery({
    queryKey: ["whole output", sessionId, step.seq],
    queryFn: async ({ signal }) => (await fetchApi(new Request(address, { signal }))).text(),
    enabled: wanted,
    staleTime: "static",
  });
  return (
    <div className="grid gap-3">
      <div className="flex flex-wrap items-center gap-2 rounded-md bg-info-soft px-3 py-2 text-sm text-info">
        <p className="min-w-40 flex-1">
          The model was shown the beginning and the end{bytes === undefined ? "." : ` of ${formatBytes(bytes)}.`}
        </p>
        {!wanted && (bytes === undefined || bytes <= MOST_SHOWN) && (
          <Button size="small" onClick={() => setWanted(true)}>
            Show everything
          </Button>
        )}
        <a href={address} download className={buttonClass("plain", "small")}>
          <Download size={14} aria-hidden /> Download
        </a>
      </div>
      {all.isFetching && <Skeleton className="h-40" />}
      {all.error && <Problem error={all.error} retry={() => void all.refetch()} />}
      {all.data !== undefined && <Block label="All output" text={all.data} tall />}
    </div>
  );
}

function bytesOf(value: unknown): number {
  const bytes = field(value, "bytes");
  return typeof bytes === "number" && excerptOf(value) ? bytes : 0;
}

