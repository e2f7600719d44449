import { useEffect, useRef } from "react";

import type { Schemas } from "@/api/types";
import { Card } from "@/ui/Card";
import { Problem } from "@/ui/Problem";
import { Skeleton } from "@/ui/Skeleton";

import { type Action, type Allowed, hasEnded } from "./actions";
import type { JournalState } from "./journal";
import { Now } from "./Now";
import { StepDetail } from "./StepDetail";
import { Timeline } from "./Timeline";
import type { Words } from "./words";

interface Props {
  session: Schemas["SessionDetails"];
  journal: JournalState;
  selected: number | undefined;
  words: Words | undefined;
  allowed: Allowed;
  onSelect: (seq: number) => void;
  onOpen: (action: Action, seq: number) => void;
}

/** The steps, and beside them the one that is looked at, or how things stand. */
export function TimelineTab({ session, journal, selected, words, allowed, onSelect, onOpen }: Props) {
  const pane = useRef<HTMLDivElement>(null);
  const shown = useRef(selected);
  const step = selected === undefined ? undefined : journal.steps[selected - 1];
  useEffect(() => {
    // On a narrow window the step is below the list: whoever has chosen one wants to see it.
    if (selected !== undefined && selected !== shown.current && matchMedia("(width < 64rem)").matches) {
      pane.current?.scrollIntoView({ block: "nearest" });
    }
    shown.current = selected;
    pane.current?.scrollTo({ top: 0 });
  }, [selected]);
  return (
    <Card className="grid overflow-hidden lg:grid-cols-[minmax(0,1.15fr)_minmax(0,1fr)]">
      <div className="min-w-0 border-line max-lg:border-b lg:border-r">
        <Timeline
          sessionId={session.id}
          steps={journal.steps}
          total={Math.max(session.steps, journal.steps.length)}
          selected={selected}
          live={!hasEnded(session)}
          onSelect={onSelect}
        />
      </div>
      <div ref={pane} tabIndex={0} role="region" aria-label="What is looked at" className="min-w-0 lg:h-[max(26rem,calc(100dvh-27rem))] lg:overflow-y-auto">
        {selected === undefined && <Now session={session} steps={journal.steps} words={words} />}
        {step && (
          <StepDetail
            sessionId={session.id}
            step={step}
            allowed={allowed}
            onFork={(seq) => onOpen("fork", seq)}
            onRollBack={(seq) => onOpen("rollback", seq)}
          />
        )}
        {selected !== undefined && !step && <Missing seq={selected} complete={journal.complete} last={journal.steps.length} />}
      </div>
    </Card>
  );
}

function Missing({ seq, complete, last }: { seq: number; complete: boolean; last: number }) {
  return (
    <div className="p-4">
      {complete ? <Problem error={new Error(`There is no step ${seq}: the session has ${last}.`)} /> : <Skeleton className="h-48" />}
    </div>
  );
}
