import { Link } from "@tanstack/react-router";
import clsx from "clsx";
import { Check, CircleHelp, ShieldQuestion, Workflow, X } from "lucide-react";
import { type FormEvent, type Ref, useImperativeHandle, useRef, useState } from "react";

import { $api } from "@/api/client";
import { useMay } from "@/api/session";
import type { Schemas } from "@/api/types";
import { Badge, type Tone } from "@/ui/Badge";
import { Button } from "@/ui/Button";
import { Checkbox, TextField } from "@/ui/Field";
import { Problem } from "@/ui/Problem";
import { Time } from "@/ui/Time";

export type Approval = Schemas["ApprovalRead"];

const KINDS: Record<Approval["kind"], { word: string; icon: typeof Check }> = {
  tool: { word: "Wants to use a tool", icon: ShieldQuestion },
  gate: { word: "A gate asks", icon: Workflow },
  question: { word: "Asks you", icon: CircleHelp },
};
const STATES: Record<Approval["state"], { tone: Tone; word: string }> = {
  waiting: { tone: "warn", word: "Waiting" },
  approved: { tone: "good", word: "Approved" },
  rejected: { tone: "bad", word: "Rejected" },
  expired: { tone: "calm", word: "Expired" },
  withdrawn: { tone: "calm", word: "Withdrawn" },
};

/** What a keyboard shortcut may ask of a card. */
export interface ApprovalHandle {
  approve: () => void;
  reject: () => void;
}

interface Props {
  approval: Approval;
  /** Says whose it is; needless where that is plain to see. */
  showOrigin?: boolean;
  current?: boolean;
  handle?: Ref<ApprovalHandle>;
}

/** Something that waits for a person, with the means to decide it. */
export function ApprovalCard({ approval, showOrigin = false, current = false, handle }: Props) {
  const { word, icon: Icon } = KINDS[approval.kind];
  return (
    <article
      aria-label={`${word}: ${approval.subject}`}
      className={clsx("grid gap-3 rounded-lg border bg-surface p-4 shadow-card", current ? "border-accent" : "border-line")}
    >
      <header className="flex flex-wrap items-center gap-x-3 gap-y-1">
        <Icon size={16} className="text-warn" aria-hidden />
        <span className="text-xs font-medium text-soft">
          {typeof approval.details.agent === "string" ? `${approval.details.agent}: ${word.toLowerCase()}` : word}
        </span>
        {approval.state !== "waiting" && <Badge tone={STATES[approval.state].tone}>{STATES[approval.state].word}</Badge>}
        <span className="ml-auto text-xs text-faint">
          <Time at={approval.created_at} />
        </span>
      </header>
      <p className={clsx("font-medium break-words", approval.kind === "tool" && "font-mono text-sm")}>{askedOf(approval)}</p>
      <Details approval={approval} />
      {showOrigin && <Origin approval={approval} />}
      {approval.state === "waiting" ? <Decision approval={approval} handle={handle} /> : <Decided approval={approval} />}
    </article>
  );
}

function Origin({ approval }: { approval: Approval }) {
  return (
    <p className="text-sm text-soft">
      {approval.team_id && (
        <>
          Team{" "}
          <Link to="/chat/$teamId" params={{ teamId: approval.team_id }} search={{ message: approval.message_id ?? undefined }} className="text-accent-ink underline">
            {approval.team_name}
          </Link>{" "}
        </>
      )}
      {approval.session_id && (
        <>
          Session{" "}
          <Link to="/sessions/$sessionId" params={{ sessionId: approval.session_id }} className="text-accent-ink underline">
            {approval.session_title}
          </Link>
        </>
      )}
    </p>
  );
}

/** What is to be decided, in the words of whoever asks. */
function askedOf(approval: Approval): string {
  const question = approval.details.question;
  return approval.kind === "gate" && typeof question === "string" ? question : approval.subject;
}

/** A list of short texts reads better as lines than as JSON. */
function shown(value: unknown): string {
  if (typeof value === "string") return value;
  if (Array.isArray(value) && value.every((each) => typeof each === "string")) return value.join("\n");
  return JSON.stringify(value, null, 2);
}

/** A tool's arguments, one by one: a command must be readable before it is allowed. */
function Details({ approval }: { approval: Approval }) {
  if (approval.kind === "question") return null;
  const given = (approval.details.arguments ?? approval.details) as Record<string, unknown>;
  const entries = Object.entries(given).filter(([name, value]) => name !== "always" && !(approval.kind === "gate" && name === "question") && value !== "");
  if (entries.length === 0) return null;
  return (
    <dl className="grid gap-2">
      {entries.map(([name, value]) => (
        <div key={name} className="grid gap-1">
          <dt className="text-xs text-faint">{name}</dt>
          <dd>
            <pre tabIndex={0} className="max-h-64 overflow-auto rounded-md bg-sunken p-2.5 text-sm whitespace-pre-wrap break-words">
              {shown(value)}
            </pre>
          </dd>
        </div>
      ))}
    </dl>
  );
}

const ON_EXPIRY: Record<Approval["on_expiry"], string> = {
  reject: "counts as a no",
  approve: "counts as a yes",
  fail: "ends the work as failed",
};

function Decided({ approval }: { approval: Approval }) {
  return (
    <p className="text-sm text-soft">
      {approval.decided_by ? `By ${approval.decided_by}` : STATES[approval.state].word}
      {approval.decided_at && (
        <>
          , <Time at={approval.decided_at} />
        </>
      )}
      {(approval.answer ?? approval.reason) && <>: {approval.answer ?? approval.reason}</>}
    </p>
  );
}

function choicesOf(approval: Approval): string[] {
  const choices = approval.details.choices;
  return Array.isArray(choices) ? choices.filter((each): each is string => typeof each === "string") : [];
}

function Decision({ approval, handle }: { approval: Approval; handle?: Ref<ApprovalHandle> | undefined }) {
  const may = useMay("approvals:write");
  const [text, setText] = useState("");
  const [rejecting, setRejecting] = useState(false);
  const [always, setAlways] = useState(false);
  const field = useRef<HTMLFormElement>(null);
  const approve = $api.useMutation("post", "/api/approvals/{approval_id}/approve");
  const reject = $api.useMutation("post", "/api/approvals/{approval_id}/reject");
  const params = { path: { approval_id: approval.id } };
  const busy = approve.isPending || reject.isPending || approve.isSuccess || reject.isSuccess;
  const asks = approval.kind === "question";
  const say = (answer: string | null) => approve.mutate({ params, body: { always, answer } });
  const begin = () => {
    setRejecting(true);
    requestAnimationFrame(() => field.current?.querySelector("input")?.focus());
  };
  useImperativeHandle(handle, () => ({
    approve: () => (asks ? field.current?.querySelector("input")?.focus() : say(null)),
    reject: begin,
  }));
  if (!may) return <p className="text-sm text-soft">Your role may look at it, not decide it.</p>;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (rejecting) reject.mutate({ params, body: { reason: text.trim() || null } });
    else if (text.trim()) say(text.trim());
  };
  return (
    <form ref={field} onSubmit={submit} className="grid gap-3">
      {asks && choicesOf(approval).length > 0 && (
        <div className="flex flex-wrap gap-2">
          {choicesOf(approval).map((choice) => (
            <Button key={choice} busy={busy} onClick={() => say(choice)}>
              {choice}
            </Button>
          ))}
        </div>
      )}
      {(asks || rejecting) && (
        <TextField
          label={rejecting ? "Why not (the agent is told)" : "Your answer"}
          value={text}
          onChange={(event) => setText(event.target.value)}
          maxLength={10_000}
        />
      )}
      {approval.kind === "tool" && !rejecting && (
        <Checkbox
          label="Always allow this tool here"
          hint={approval.session_id ? "For the rest of this session, whatever it is given." : "Until this team is restarted, whatever it is given."}
          checked={always}
          onChange={(event) => setAlways(event.target.checked)}
        />
      )}
      {approve.error || reject.error ? <Problem error={approve.error ?? reject.error} /> : null}
      <div className="flex flex-wrap items-center gap-2">
        {rejecting ? (
          <>
            <Button type="submit" look="danger" busy={busy} icon={<X size={15} />}>
              Reject
            </Button>
            <Button onClick={() => setRejecting(false)}>Back</Button>
          </>
        ) : (
          <>
            <Button
              type={asks ? "submit" : "button"}
              look="primary"
              busy={busy}
              disabled={asks && !text.trim()}
              icon={<Check size={15} />}
              onClick={asks ? undefined : () => say(null)}
            >
              {asks ? "Answer" : "Approve"}
            </Button>
            <Button onClick={begin} disabled={busy} icon={<X size={15} />}>
              Reject
            </Button>
          </>
        )}
        <span className="ml-auto text-xs text-faint">
          No decision <Time at={approval.expires_at} /> {ON_EXPIRY[approval.on_expiry]}
        </span>
      </div>
    </form>
  );
}
