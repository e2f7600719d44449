import { ChevronLeft, ChevronRight, Radio } from "lucide-react";
import { useDeferredValue, useEffect, useId, useState } from "react";

import { $api } from "@/api/client";
import { formatMoney, plural } from "@/lib/format";
import { useShortcut } from "@/shell/shortcuts";
import { Button, IconButton } from "@/ui/Button";
import { Skeleton } from "@/ui/Skeleton";
import { Time } from "@/ui/Time";

import { onlyFiles } from "./onlyFiles";
import type { Step } from "./journal";
import { costUntil, nameOf } from "./steps";

// Nobody needs the files of each step that the handle passes on its way.
const REST = 250;

interface Props {
  sessionId: string;
  steps: Step[];
  /** How many steps there are, with those that have not been read yet. */
  total: number;
  selected: number | undefined;
  live: boolean;
  onSelect: (seq: number | undefined) => void;
}

/** Goes through the steps of a session, and says how things stood after each. */
export function Scrubber({ sessionId, steps, total, selected, live, onSelect }: Props) {
  const label = useId();
  const last = Math.max(total, steps.length);
  const at = Math.min(selected ?? last, Math.max(last, 1));
  const step = steps[at - 1];
  const go = (seq: number) => onSelect(Math.max(1, Math.min(last, seq)));
  useShortcut("j", "Next step", () => go(at + 1), last > 0);
  useShortcut("k", "Previous step", () => go(at - 1), last > 0);
  useShortcut("ArrowRight", "Next step", () => go(at + 1), last > 0);
  useShortcut("ArrowLeft", "Previous step", () => go(at - 1), last > 0);
  if (steps.length === 0) return <Skeleton className="h-[4.25rem]" />;
  return (
    <div className="grid gap-1 rounded-lg border border-line bg-surface px-3 py-2 shadow-card">
      <div className="flex items-center gap-2">
        <IconButton label="Previous step (k)" size="small" disabled={at <= 1} onClick={() => go(at - 1)}>
          <ChevronLeft size={16} />
        </IconButton>
        <input
          type="range"
          min={1}
          max={Math.max(last, 1)}
          value={at}
          aria-labelledby={label}
          aria-valuetext={step ? `Step ${at} of ${last}: ${nameOf(step)}` : undefined}
          onChange={(event) => go(Number(event.target.value))}
          className="h-6 min-w-0 flex-1 accent-accent"
        />
        <IconButton label="Next step (j)" size="small" disabled={at >= last} onClick={() => go(at + 1)}>
          <ChevronRight size={16} />
        </IconButton>
        <Button size="small" look={selected === undefined ? "plain" : "primary"} disabled={selected === undefined} icon={live ? <Radio size={14} /> : undefined} onClick={() => onSelect(undefined)}>
          {live ? "Live" : "Latest"}
        </Button>
      </div>
      <p id={label} className="flex flex-wrap items-center gap-x-2 gap-y-0.5 px-1 text-xs text-soft">
        <strong className="font-semibold tabular text-ink">
          Step {at} of {last}
        </strong>
        {step && (
          <>
            <span aria-hidden>·</span>
            <Time at={step.at} />
            <span aria-hidden>·</span>
            <span className="tabular">{formatMoney(costUntil(steps, at))} spent by then</span>
            <span aria-hidden>·</span>
            <FilesThen sessionId={sessionId} seq={at} newest={at === last} />
          </>
        )}
      </p>
    </div>
  );
}

/** How many files had changed by a step; asked for only where the handle rests. */
function FilesThen({ sessionId, seq, newest }: { sessionId: string; seq: number; newest: boolean }) {
  const rested = useRested(useDeferredValue(seq));
  const files = $api.useQuery(
    "get",
    "/api/sessions/{session_id}/files",
    { params: { path: { session_id: sessionId }, query: newest ? {} : { to_seq: rested } } },
    // What was true after an earlier step stays so; what is true now, events say.
    { staleTime: newest ? 60_000 : "static", placeholderData: (before) => before },
  );
  const count = files.data ? onlyFiles(files.data.files).length + files.data.more_files : undefined;
  return <span className="tabular">{count === undefined ? "…" : count === 0 ? "no files changed" : `${plural(count, "file")} changed`}</span>;
}

function useRested(value: number): number {
  const [rested, setRested] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setRested(value), REST);
    return () => clearTimeout(timer);
  }, [value]);
  return rested;
}
