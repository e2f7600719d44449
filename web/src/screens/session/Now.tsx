import { CircleHelp } from "lucide-react";
import type { ReactNode } from "react";

import type { Schemas } from "@/api/types";
import { Kbd } from "@/ui/Kbd";
import { Skeleton } from "@/ui/Skeleton";
import { Spinner } from "@/ui/Spinner";

import { isWorkedOn } from "./actions";
import type { Step } from "./journal";
import { Plan } from "./Plan";
import { Rich } from "./Rich";
import { partsOf, planAt } from "./steps";
import type { Words } from "./words";

interface Props {
  session: Schemas["SessionDetails"];
  steps: Step[];
  words: Words | undefined;
}

/** How a session stands: its plan, and what the model says while it says it. */
export function Now({ session, steps, words }: Props) {
  const plan = planAt(steps, steps.length);
  const said = words?.text ?? lastSaid(steps);
  if (steps.length === 0) return <div className="p-4"><Skeleton className="h-40" /></div>;
  return (
    <section aria-label="Now" className="grid content-start gap-5 p-4">
      {plan.length > 0 && (
        <Part title="Plan">
          <Plan items={plan} />
        </Part>
      )}
      <Part title={words ? "The model is speaking" : "Last said"} busy={words !== undefined && !words.done}>
        <div aria-live="polite" aria-busy={words !== undefined && !words.done} className="min-w-0">
          {said ? <Rich text={said} streaming={words !== undefined} /> : <p className="text-sm text-soft">{quiet(session)}</p>}
        </div>
      </Part>
      <p className="flex flex-wrap items-center gap-1.5 border-t border-line pt-3 text-xs text-faint">
        <CircleHelp size={13} aria-hidden /> Choose a step to see what went in and came out, or go through them with
        <Kbd keys="j" /> and <Kbd keys="k" />.
      </p>
    </section>
  );
}

function Part({ title, busy = false, children }: { title: string; busy?: boolean; children: ReactNode }) {
  return (
    <div className="grid min-w-0 gap-2">
      <h2 className="flex items-center gap-2 text-xs font-medium text-faint">
        {title}
        {busy && <Spinner size={12} />}
      </h2>
      {children}
    </div>
  );
}

function lastSaid(steps: Step[]): string {
  for (let at = steps.length - 1; at >= 0; at -= 1) {
    const step = steps[at]!;
    if (step.kind !== "model" || !step.in_force) continue;
    const said = partsOf(step)
      .filter((part) => part.part_kind === "text")
      .map((part) => part.content ?? "")
      .join("\n\n");
    if (said) return said;
  }
  return "";
}

function quiet(session: Schemas["SessionDetails"]): string {
  if (session.state === "CREATED") return "It has not been told to run yet.";
  if (session.position !== null) return session.position === 1 ? "It is next in the queue." : `It is number ${session.position} in the queue.`;
  if (isWorkedOn(session)) return "It is at work and has not said anything yet.";
  return "It has not said anything.";
}
