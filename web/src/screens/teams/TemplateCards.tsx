import { Link } from "@tanstack/react-router";
import { FilePlus2, Users } from "lucide-react";
import type { ReactNode } from "react";

import { $api } from "@/api/client";
import type { Schemas } from "@/api/types";
import { plural } from "@/lib/format";
import { Problem } from "@/ui/Problem";
import { Skeleton } from "@/ui/Skeleton";

import { BLANK } from "./draft";

interface Props {
  /** Takes the choice; without it each card leads to the builder. */
  choose?: (template: string) => void;
  /** Also the empty team, to describe from nothing. */
  blank?: boolean;
  chosen?: string | undefined;
}

/** The teams to start from: what each is for, and who is in it. */
export function TemplateCards({ choose, blank = false, chosen }: Props) {
  const query = $api.useQuery("get", "/api/team-templates", {}, { staleTime: Infinity });
  if (query.isError) return <Problem error={query.error} retry={() => void query.refetch()} />;
  return (
    <ul className="grid gap-3 sm:grid-cols-2 lg:grid-cols-3">
      {query.isPending && Array.from({ length: 6 }, (_, index) => <li key={index}><Skeleton className="h-40 rounded-lg" /></li>)}
      {query.data?.map((template) => (
        <li key={template.id}>
          <Choosable id={template.id} choose={choose} chosen={chosen === template.id}>
            <TemplateWords template={template} />
          </Choosable>
        </li>
      ))}
      {blank && (
        <li>
          <Choosable id={BLANK} choose={choose} chosen={chosen === BLANK}>
            <span className="flex items-center gap-2 text-base font-semibold">
              <FilePlus2 size={16} aria-hidden className="text-accent-ink" /> Blank
            </span>
            <span className="text-sm text-soft">One leader without instructions. Describe everything yourself.</span>
          </Choosable>
        </li>
      )}
    </ul>
  );
}

function TemplateWords({ template }: { template: Schemas["TemplateRead"] }) {
  return (
    <>
      <span className="flex items-center gap-2 text-base font-semibold">
        <Users size={16} aria-hidden className="text-accent-ink" /> {template.name}
      </span>
      <span className="text-sm text-soft">{template.description}</span>
      <span className="mt-auto flex flex-wrap gap-1 pt-1">
        <span className="sr-only">{plural(template.agents.length, "agent")}: </span>
        {template.agents.map((agent, index) => (
          <span key={agent} className={index === 0 ? "rounded-sm bg-accent-soft px-1.5 py-0.5 text-xs text-accent-ink" : "rounded-sm bg-hover px-1.5 py-0.5 text-xs text-soft"}>
            {agent}
          </span>
        ))}
      </span>
    </>
  );
}

function Choosable({ id, choose, chosen, children }: { id: string; choose: Props["choose"]; chosen: boolean; children: ReactNode }) {
  const look = `flex h-full w-full flex-col gap-2 rounded-lg border bg-surface p-4 text-left shadow-card transition-colors hover:border-accent ${chosen ? "border-accent ring-1 ring-accent" : "border-line"}`;
  if (choose) {
    return (
      <button type="button" aria-pressed={chosen} className={look} onClick={() => choose(id)}>
        {children}
      </button>
    );
  }
  return (
    <Link to="/teams/new" search={{ template: id, step: 2 }} className={look}>
      {children}
    </Link>
  );
}
