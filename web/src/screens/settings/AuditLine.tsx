import { Link } from "@tanstack/react-router";
import clsx from "clsx";
import { ChevronRight, EyeOff, Minus, PenLine, Plus } from "lucide-react";
import { type ReactNode, useId, useState } from "react";

import type { Schemas } from "@/api/types";
import { formatMoment } from "@/lib/format";
import { Button } from "@/ui/Button";
import { CopyButton } from "@/ui/Copy";
import { Time } from "@/ui/Time";

import { type Change, changesOf, MASK } from "./auditDiff";
import { actionWords, type AuditSearch, spaced } from "./auditFilter";

type Entry = Schemas["AuditRead"];

/** One change: who did what to which thing; opened, what it was before and after. */
export function AuditLine({ entry, onFilter }: { entry: Entry; onFilter: (next: AuditSearch) => void }) {
  const [open, setOpen] = useState(false);
  const id = useId();
  return (
    <li>
      <button
        type="button"
        aria-expanded={open}
        aria-controls={id}
        onClick={() => setOpen(!open)}
        className="grid w-full grid-cols-[auto_minmax(0,1fr)_auto] items-center gap-x-3 px-4 py-2.5 text-left -outline-offset-2 hover:bg-hover"
      >
        <ChevronRight size={15} aria-hidden className={clsx("text-faint transition-transform", open && "rotate-90")} />
        <span className="min-w-0">
          <span className="block text-sm font-medium break-words">{actionWords(entry.action)}</span>
          <span className="block truncate text-xs text-soft">
            {nameOf(entry) && <span className="text-ink">{nameOf(entry)} </span>}
            by {entry.actor_name}
          </span>
        </span>
        <Time at={entry.at} className="text-xs whitespace-nowrap text-faint" />
      </button>
      <div id={id}>{open && <Details entry={entry} onFilter={onFilter} />}</div>
    </li>
  );
}

/** What the thing is called, as far as the entry itself says. */
function nameOf(entry: Entry): string | undefined {
  const facts = { ...entry.before, ...entry.after };
  const name = facts.name ?? facts.title ?? facts.email ?? facts.subject;
  return typeof name === "string" && name !== "" ? name : undefined;
}

function Details({ entry, onFilter }: { entry: Entry; onFilter: (next: AuditSearch) => void }) {
  const changes = changesOf(entry.before, entry.after);
  return (
    <div className="grid gap-4 border-t border-line bg-sunken px-4 py-4 sm:pl-11">
      <dl className="grid gap-x-6 gap-y-1.5 text-sm sm:grid-cols-[auto_minmax(0,1fr)]">
        <Fact name="When">{formatMoment(entry.at)}</Fact>
        <Fact name="Who">
          {entry.actor_name} <span className="text-faint">({spaced(entry.actor_kind)})</span>
        </Fact>
        <Fact name="Action">
          <code className="text-xs">{entry.action}</code>
        </Fact>
        <Fact name="About">
          <Target entry={entry} />
        </Fact>
        {entry.request_id && (
          <Fact name="Request">
            <code className="text-xs break-all select-all">{entry.request_id}</code>
            <CopyButton text={entry.request_id} label="Copy the request id" />
          </Fact>
        )}
      </dl>
      {changes.length > 0 ? <Changes changes={changes} entry={entry} /> : <p className="text-sm text-soft">Nothing more was written down about it.</p>}
      <div className="flex flex-wrap gap-2">
        <Button size="small" onClick={() => onFilter({ target: `${entry.target_kind}/${entry.target_id}` })}>
          All about this {spaced(entry.target_kind)}
        </Button>
        <Button size="small" onClick={() => onFilter({ actor: entry.actor_id })}>
          All by {entry.actor_name}
        </Button>
        <Button size="small" onClick={() => onFilter({ action: entry.action })}>
          All of this kind
        </Button>
      </div>
    </div>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div className="contents">
      <dt className="text-faint max-sm:pt-1 max-sm:text-xs sm:self-center">{name}</dt>
      <dd className="flex min-w-0 flex-wrap items-center gap-x-1.5">{children}</dd>
    </div>
  );
}

function Target({ entry }: { entry: Entry }) {
  const id = entry.target_id;
  const name = `${spaced(entry.target_kind)}${nameOf(entry) ? ` ${nameOf(entry)}` : ""}`;
  const look = "rounded-sm text-accent-ink underline";
  switch (entry.target_kind) {
    case "session":
      return <Link to="/sessions/$sessionId" params={{ sessionId: id }} className={look}>{name}</Link>;
    case "team":
      return <Link to="/teams/$teamId" params={{ teamId: id }} className={look}>{name}</Link>;
    case "chain":
      return <Link to="/chains/$chainId" params={{ chainId: id }} className={look}>{name}</Link>;
    case "schedule":
      return <Link to="/schedules/$scheduleId" params={{ scheduleId: id }} className={look}>{name}</Link>;
    case "webhook":
      return <Link to="/webhooks/$webhookId" params={{ webhookId: id }} className={look}>{name}</Link>;
    default:
      return (
        <>
          {name} <CopyButton text={id} label={`Copy the id of this ${spaced(entry.target_kind)}`} />
        </>
      );
  }
}

const MARKS: Record<Change["kind"], { word: string; icon: typeof Plus | undefined; look: string }> = {
  added: { word: "Added", icon: Plus, look: "text-good" },
  removed: { word: "Removed", icon: Minus, look: "text-bad" },
  changed: { word: "Changed", icon: PenLine, look: "text-warn" },
  same: { word: "As before", icon: undefined, look: "text-faint" },
};

function Changes({ changes, entry }: { changes: Change[]; entry: Entry }) {
  const both = entry.before !== null && entry.after !== null;
  return (
    <div role="region" aria-label="What changed" tabIndex={0} className="overflow-x-auto rounded-md border border-line bg-surface">
      <table className="w-full border-collapse text-sm">
        <thead>
          <tr className="border-b border-line text-left text-xs text-faint">
            <th scope="col" className="px-3 py-2 font-medium">Field</th>
            {entry.before !== null && <th scope="col" className="px-3 py-2 font-medium">{both ? "Before" : "It was"}</th>}
            {entry.after !== null && <th scope="col" className="px-3 py-2 font-medium">{both ? "After" : "It is"}</th>}
          </tr>
        </thead>
        <tbody className="divide-y divide-line">
          {changes.map((change) => (
            <ChangeRow key={change.field} change={change} hasBefore={entry.before !== null} hasAfter={entry.after !== null} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function ChangeRow({ change, hasBefore, hasAfter }: { change: Change; hasBefore: boolean; hasAfter: boolean }) {
  const mark = MARKS[change.kind];
  const Icon = mark.icon;
  // Where all was added or removed, there is nothing to tell apart.
  const marked = hasBefore && hasAfter;
  const differs = marked && change.kind !== "same";
  return (
    <tr className={clsx("align-top", change.kind === "same" && "text-soft")}>
      <th scope="row" className="px-3 py-2 text-left font-normal whitespace-nowrap">
        <span className="flex items-center gap-1.5">
          {marked && Icon && <Icon size={13} aria-hidden className={mark.look} />}
          {marked && <span className="sr-only">{mark.word}: </span>}
          {spaced(change.field)}
        </span>
      </th>
      {hasBefore && <Value text={change.before} change={change} look={differs ? "bg-bad-soft" : ""} />}
      {hasAfter && <Value text={change.after} change={change} look={differs ? "bg-good-soft" : ""} after />}
    </tr>
  );
}

function Value({ text, change, look, after = false }: { text: string | undefined; change: Change; look: string; after?: boolean }) {
  if (text === undefined) return <td className="px-3 py-2 text-faint">not there</td>;
  const items = change.items;
  return (
    <td className={clsx("px-3 py-2 break-words whitespace-pre-wrap", look)}>
      {items && after ? (
        <>
          {items.added.map((item) => <span key={`+${item}`} className="block text-good">+ {item}</span>)}
          {items.removed.map((item) => <span key={`-${item}`} className="block text-bad">− {item}</span>)}
          {items.added.length + items.removed.length === 0 && text}
        </>
      ) : (
        text
      )}
      {change.hidden && text.includes(MASK) && (
        <span className="mt-0.5 flex items-center gap-1 text-xs text-soft">
          <EyeOff size={12} aria-hidden /> a secret, hidden
        </span>
      )}
    </td>
  );
}
