import { useVirtualizer } from "@tanstack/react-virtual";
import clsx from "clsx";
import { CircleAlert, CircleHelp } from "lucide-react";
import { memo, useEffect, useLayoutEffect, useMemo, useRef } from "react";

import { basePath } from "@/lib/base";
import { formatDuration, formatMoney } from "@/lib/format";
import { Skeleton, SkeletonRows } from "@/ui/Skeleton";

import type { Step } from "./journal";
import { KINDS } from "./kinds";
import { answerOf, type Bar, nameOf, summaryOf, waterfall } from "./steps";

const TALL = 52;
const FLAT = 32;
// So near the end counts as being there.
const NEAR = 60;

interface Props {
  sessionId: string;
  steps: Step[];
  /** How many steps there are, with those that have not been read yet. */
  total: number;
  selected: number | undefined;
  /** More steps may come: the end is followed while it is in sight. */
  live: boolean;
  onSelect: (seq: number) => void;
}

/** All steps in order, each with what it was and how long it took. */
export function Timeline({ sessionId, steps, total, selected, live, onSelect }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const following = useRef(true);
  const bars = useMemo(() => waterfall(steps), [steps]);
  const rows = useVirtualizer({
    count: total,
    getScrollElement: () => box.current,
    estimateSize: (index) => (steps[index]?.kind === "state" ? FLAT : TALL),
    getItemKey: (index) => index,
    overscan: 12,
  });
  // Steps that have come take the place of what was guessed about their heights.
  useLayoutEffect(() => rows.measure(), [rows, steps.length]);
  const there = selected !== undefined && selected <= steps.length;
  useEffect(() => {
    if (selected === undefined) return;
    // The list knows its height only when it has been drawn.
    const frame = requestAnimationFrame(() => rows.scrollToIndex(selected - 1, { align: "auto" }));
    return () => cancelAnimationFrame(frame);
    // Only when another step is chosen: new steps must not move what is looked at.
  }, [selected, there, steps.length === 0]);
  useEffect(() => {
    if (!live || selected !== undefined || !following.current || steps.length === 0) return;
    const frame = requestAnimationFrame(() => rows.scrollToIndex(total - 1, { align: "end" }));
    return () => cancelAnimationFrame(frame);
  }, [live, selected, steps.length, total, rows]);
  if (steps.length === 0) return <div className="p-4"><SkeletonRows rows={8} className="h-11" /></div>;
  return (
    <div
      ref={box}
      role="region"
      aria-label="Timeline"
      tabIndex={0}
      onScroll={({ currentTarget: each }) => {
        following.current = each.scrollHeight - each.scrollTop - each.clientHeight < NEAR;
      }}
      className="h-[46dvh] overflow-y-auto lg:h-[max(26rem,calc(100dvh-27rem))]"
    >
      <ol className="relative" style={{ height: rows.getTotalSize() }}>
        {rows.getVirtualItems().map((row) => {
          const step = steps[row.index];
          return (
            <li
              key={row.key}
              aria-setsize={total}
              aria-posinset={row.index + 1}
              className="absolute inset-x-0"
              style={{ top: row.start, height: row.size }}
            >
              {step ? (
                <Row sessionId={sessionId} step={step} bar={bars.get(step.seq)!} selected={step.seq === selected} onSelect={onSelect} />
              ) : (
                <Skeleton className="mx-3 my-2 h-9" />
              )}
            </li>
          );
        })}
      </ol>
    </div>
  );
}

interface RowProps {
  sessionId: string;
  step: Step;
  bar: Bar;
  selected: boolean;
  onSelect: (seq: number) => void;
}

const Row = memo(function Row({ sessionId, step, bar, selected, onSelect }: RowProps) {
  const flat = step.kind === "state";
  const indented = answerOf(step) > 0;
  return (
    // Not a Link: each of those works out its address anew whenever the address of the page changes.
    <a
      href={`${basePath}/sessions/${sessionId}?tab=timeline&step=${step.seq}`}
      onClick={(event) => {
        if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
        event.preventDefault();
        onSelect(step.seq);
      }}
      aria-current={selected ? "step" : undefined}
      className={clsx(
        "grid h-full items-center gap-3 border-b border-l-2 border-b-line pr-3 focus-visible:outline-offset-[-2px]",
        "grid-cols-[minmax(0,1fr)_auto] sm:grid-cols-[minmax(0,1fr)_6.5rem_4rem]",
        "pl-2",
        selected ? "border-l-accent bg-accent-soft" : "border-l-transparent hover:bg-hover",
        !step.in_force && !selected && "bg-sunken",
      )}
    >
      <RowName step={step} flat={flat} indented={indented} />
      <span className="max-sm:hidden">{!flat && <BarOf step={step} bar={bar} />}</span>
      <span className="grid justify-items-end text-2xs tabular text-soft">
        {step.duration_ms > 0 && <span>{formatDuration(step.duration_ms)}</span>}
        {!!step.cost_micros && <span className="text-faint">{formatMoney(step.cost_micros)}</span>}
      </span>
    </a>
  );
});

function RowName({ step, flat, indented }: { step: Step; flat: boolean; indented: boolean }) {
  const look = KINDS[step.kind];
  const summary = summaryOf(step);
  const bad = step.status === "failed" || (step.kind === "state" && step.name === "FAILED");
  return (
    <span className="flex min-w-0 items-center gap-2.5">
      <span className="w-7 shrink-0 text-right text-2xs tabular text-faint">{step.seq}</span>
      <look.icon size={flat ? 13 : 16} className={clsx("shrink-0", indented && "ml-5", step.in_force ? look.ink : "text-faint")} aria-label={look.word} />
      <span className={clsx("min-w-0 flex-1", flat && "flex items-baseline gap-2")}>
        <span className={clsx("flex min-w-0 items-center gap-1.5 text-sm", flat ? "shrink-0 text-xs text-soft" : "font-medium", !step.in_force && "text-faint")}>
          <span className={clsx("truncate", !step.in_force && "line-through")}>{nameOf(step)}</span>
          {bad && <CircleAlert size={13} className="shrink-0 text-bad" aria-label="failed" />}
          {step.status === "uncertain" && <CircleHelp size={13} className="shrink-0 text-warn" aria-label="uncertain" />}
          {!step.in_force && !flat && (
            <span className="inline-block shrink-0 rounded-full border border-line-strong px-1.5 text-2xs font-normal text-soft">undone</span>
          )}
        </span>
        {summary && <span className={clsx("block truncate text-xs", step.in_force ? "text-soft" : "text-faint")}>{summary}</span>}
      </span>
    </span>
  );
}

function BarOf({ step, bar }: { step: Step; bar: Bar }) {
  return (
    <span aria-hidden className="relative block h-2 rounded-full bg-hover">
      <span
        className={clsx("absolute inset-y-0 min-w-[3px] rounded-full", step.status === "failed" ? "bg-bad" : KINDS[step.kind].bar, !step.in_force && "opacity-40")}
        style={{ left: `min(${bar.from * 100}%, calc(100% - 3px))`, width: `${bar.width * 100}%` }}
      />
    </span>
  );
}
