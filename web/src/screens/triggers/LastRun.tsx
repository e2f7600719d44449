import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

import type { Schemas } from "@/api/types";
import { RunBadge } from "@/ui/states";
import { Time } from "@/ui/Time";

import { runAnchor } from "./runAnchor";

type Of = Pick<Schemas["ScheduleRead"], "name" | "last_run">;

interface Props {
  of: Of;
  /** The screen that shows its runs. */
  at: { to: "/schedules/$scheduleId"; params: { scheduleId: string } } | { to: "/webhooks/$webhookId"; params: { webhookId: string } };
}

/** How the newest run went and when, with a link to it; or that there is none. */
export function LastRun({ of: { name, last_run: run }, at }: Props) {
  if (!run) return <Pair name="Last run">None</Pair>;
  return (
    <Pair
      name={
        <>
          Last run <Time at={run.finished_at ?? run.due_at} />
        </>
      }
    >
      <Link {...at} hash={runAnchor(run.id)} title={run.error ?? undefined} className="flex min-h-6 items-center rounded-full hover:brightness-95">
        <RunBadge state={run.state} />
        <span className="sr-only">: the last run of {name}</span>
      </Link>
    </Pair>
  );
}

/** A value below its name; on phones, where there are no columns, beside it. */
export function Pair({ name, children }: { name: ReactNode; children: ReactNode }) {
  return (
    <div className="text-sm max-md:flex max-md:items-center max-md:justify-between max-md:gap-4">
      <span className="block text-xs text-faint">{name}</span>
      <span className="flex min-h-6 items-center">{children}</span>
    </div>
  );
}
