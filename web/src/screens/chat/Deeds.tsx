import clsx from "clsx";
import { Ban, ChevronRight, CircleAlert, CircleCheck, type LucideIcon } from "lucide-react";
import { useId, useState } from "react";

import { plural } from "@/lib/format";
import { Spinner } from "@/ui/Spinner";

import { AgentChip, useTeam } from "./agents";
import type { Deed } from "./answer";

const ENDED: Record<Exclude<Deed["state"], "running">, { icon: LucideIcon; word: string; className: string }> = {
  done: { icon: CircleCheck, word: "Done", className: "text-good" },
  failed: { icon: CircleAlert, word: "Failed", className: "text-bad" },
  denied: { icon: Ban, word: "Denied", className: "text-warn" },
};

const CALLS_WORKER = new Set(["spawn_agents", "Task", "task", "Agent"]);

/** The tool in words for people; agents name tools in many ways. */
export function toolName(deed: Pick<Deed, "tool" | "agent">): string {
  if (deed.agent !== null && CALLS_WORKER.has(deed.tool)) return "Asked a worker";
  return deed.tool.replace(/^mcp__/, "").replaceAll("__", ": ").replaceAll("_", " ");
}

function StateIcon({ state }: { state: Deed["state"] }) {
  if (state === "running") {
    return (
      <span className="shrink-0 text-info">
        <Spinner size={15} />
        <span className="sr-only">Running</span>
      </span>
    );
  }
  const { icon: Icon, word, className } = ENDED[state];
  return <Icon size={15} role="img" aria-label={word} className={clsx("shrink-0", className)} />;
}

/** What agents did for an answer: one line, and all of it on asking. */
export function Deeds({ deeds }: { deeds: Deed[] }) {
  const [open, setOpen] = useState(false);
  const list = useId();
  if (deeds.length === 0) return null;
  const running = deeds.filter((deed) => deed.state === "running");
  const state = running.length > 0 ? "running" : deeds.some((deed) => deed.state === "failed") ? "failed" : deeds.at(-1)!.state;
  return (
    <div className="min-w-0 overflow-hidden rounded-md border border-line bg-surface text-sm">
      <button
        type="button"
        aria-expanded={open}
        aria-controls={list}
        onClick={() => setOpen(!open)}
        className="flex min-h-9 w-full min-w-0 items-center gap-2.5 px-3 py-1.5 text-left hover:bg-hover"
      >
        <StateIcon state={state} />
        <Gist deeds={deeds} current={running.at(-1)} />
        <ChevronRight size={15} aria-hidden className={clsx("ml-auto shrink-0 text-faint transition-transform", open && "rotate-90")} />
      </button>
      {open && (
        <ul id={list} className="divide-y divide-line border-t border-line">
          {deeds.map((deed) => (
            <DeedRow key={deed.id} deed={deed} />
          ))}
        </ul>
      )}
    </div>
  );
}

/** The tool at work, or how many there were and who used them. */
function Gist({ deeds, current }: { deeds: Deed[]; current: Deed | undefined }) {
  const shown = current ?? (deeds.length === 1 ? deeds[0] : undefined);
  const workers = [...new Set(deeds.flatMap((deed) => deed.agent ?? []))];
  const failed = deeds.filter((deed) => deed.state === "failed").length;
  const denied = deeds.filter((deed) => deed.state === "denied").length;
  return (
    <span className="flex min-w-0 items-center gap-2">
      {shown ? (
        <>
          <span className="shrink-0 font-medium">{toolName(shown)}</span>
          {shown.agent && <AgentChip name={shown.agent} />}
          <span className="truncate font-mono text-xs text-soft">{shown.summary}</span>
          {deeds.length > 1 && <span className="shrink-0 text-xs text-faint">{deeds.length} so far</span>}
        </>
      ) : (
        <>
          <span className="shrink-0 font-medium">{plural(deeds.length, "action")}</span>
          <span className="truncate text-xs text-soft">
            {[...new Set(deeds.map(toolName))].join(", ")}
            {failed > 0 && `; ${failed} failed`}
            {denied > 0 && `; ${denied} denied`}
          </span>
          <span className="hidden shrink-0 gap-1 sm:flex">
            {workers.slice(0, 3).map((name) => (
              <AgentChip key={name} name={name} />
            ))}
          </span>
        </>
      )}
    </span>
  );
}

function DeedRow({ deed }: { deed: Deed }) {
  const { leader } = useTeam();
  return (
    <li className="grid grid-cols-[auto_minmax(0,1fr)] gap-x-2.5 gap-y-1 px-3 py-2">
      <span className="mt-0.5">
        <StateIcon state={deed.state} />
      </span>
      <div className="flex flex-wrap items-center gap-2">
        <span className="font-medium">{toolName(deed)}</span>
        <AgentChip name={deed.agent ?? leader.name} />
        <span className="text-xs text-faint">{deed.state === "running" ? "Running" : ENDED[deed.state].word}</span>
      </div>
      {deed.summary && <pre className="col-start-2 max-h-40 overflow-auto text-xs whitespace-pre-wrap text-soft">{deed.summary}</pre>}
    </li>
  );
}
