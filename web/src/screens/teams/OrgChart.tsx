import { Crown, UserRound } from "lucide-react";
import clsx from "clsx";
import type { ReactNode } from "react";

export interface ChartAgent {
  name: string;
  role: string;
  model?: string | null;
}

interface Props {
  leader: ChartAgent;
  workers: ChartAgent[];
  /** Makes the boxes lead somewhere, e.g. to the agent's editor. */
  linkTo?: (agent: ChartAgent, box: ReactNode) => ReactNode;
}

/** Who hands work to whom: the leader above, its workers below. */
export function OrgChart({ leader, workers, linkTo = (_, box) => box }: Props) {
  return (
    <ul aria-label="Leader and workers" className="grid justify-items-center">
      <li className="grid w-full justify-items-center">
        <div className="w-full max-w-72">{linkTo(leader, <AgentBox agent={leader} leads />)}</div>
        {workers.length > 0 && (
          <>
            <span aria-hidden className="h-5 w-px bg-line-strong/60" />
            <Workers workers={workers} linkTo={linkTo} />
          </>
        )}
      </li>
    </ul>
  );
}

function Workers({ workers, linkTo }: Required<Pick<Props, "workers" | "linkTo">>) {
  return (
    <ul
      aria-label="Workers"
      className="grid w-full gap-3 rounded-lg border border-dashed border-line-strong/60 p-3 sm:grid-cols-[repeat(auto-fit,minmax(11rem,1fr))]"
    >
      {workers.map((worker) => (
        <li key={worker.name}>{linkTo(worker, <AgentBox agent={worker} />)}</li>
      ))}
    </ul>
  );
}

function AgentBox({ agent, leads = false }: { agent: ChartAgent; leads?: boolean }) {
  const Icon = leads ? Crown : UserRound;
  return (
    <div
      className={clsx(
        "flex h-full min-w-0 items-start gap-2.5 rounded-md border p-3 text-left",
        leads ? "border-accent/40 bg-accent-soft" : "border-line bg-surface",
      )}
    >
      <span className={clsx("grid size-7 shrink-0 place-items-center rounded-full", leads ? "bg-accent text-on-accent" : "bg-hover text-soft")}>
        <Icon size={14} aria-hidden />
      </span>
      <div className="min-w-0">
        <p className="text-sm font-semibold break-words">
          {agent.name || "unnamed"}
          {leads && <span className="ml-1.5 text-xs font-normal text-soft">leader</span>}
        </p>
        {agent.role && <p className="text-xs text-soft">{agent.role}</p>}
        {agent.model && <p className="mt-1 font-mono text-2xs text-soft">{agent.model}</p>}
      </div>
    </div>
  );
}
