import { Check, ShieldQuestion, X } from "lucide-react";
import { useState } from "react";

import { $api } from "@/api/client";
import { useMay } from "@/api/session";
import type { Schemas } from "@/api/types";
import { Button } from "@/ui/Button";
import { Checkbox, TextArea, TextField } from "@/ui/Field";
import { Problem } from "@/ui/Problem";
import { Time } from "@/ui/Time";

import { AgentChip, useTeam } from "./agents";
import { toolName } from "./Deeds";

type Approval = Schemas["ApprovalRead"];

/** What this team waits for a person with, to be decided right here. */
export function Approvals() {
  const team = useTeam();
  const waiting = $api.useQuery("get", "/api/approvals", {
    params: { query: { team_id: team.id, state: "waiting", limit: 20 } },
  });
  if (!waiting.data?.items.length) return null;
  return (
    <div className="grid gap-3">
      {waiting.data.items.map((approval) => (
        <ApprovalCard key={approval.id} approval={approval} />
      ))}
    </div>
  );
}

function title(approval: Approval): string {
  if (approval.kind === "tool") return `Use ${toolName({ tool: approval.subject, agent: null })}?`;
  return approval.kind === "gate" ? `Pass the gate ${approval.subject}?` : approval.subject;
}

function ApprovalCard({ approval }: { approval: Approval }) {
  const may = useMay("approvals:write");
  const agent = approval.details.agent;
  return (
    <section aria-label={title(approval)} className="grid gap-3 rounded-lg border border-line bg-warn-soft p-4 text-sm">
      <div className="flex items-start gap-3">
        <ShieldQuestion size={18} aria-hidden className="mt-0.5 shrink-0 text-warn" />
        <div className="grid min-w-0 flex-1 gap-1">
          <p className="font-semibold break-words">{title(approval)}</p>
          <p className="flex flex-wrap items-center gap-2 text-xs text-soft">
            {typeof agent === "string" && <AgentChip name={agent} />}
            <span>
              Asked <Time at={approval.created_at} />; {EXPIRY[approval.on_expiry]} <Time at={approval.expires_at} />.
            </span>
          </p>
        </div>
      </div>
      <Details details={approval.details} />
      {may ? <Decision approval={approval} /> : <p className="text-xs text-soft">Somebody who may decide approvals has to say yes or no.</p>}
    </section>
  );
}

const EXPIRY: Record<Approval["on_expiry"], string> = {
  reject: "rejected if nobody decides",
  approve: "approved if nobody decides",
  fail: "fails if nobody decides",
};

function Details({ details }: { details: Approval["details"] }) {
  const given = details.arguments ?? details;
  const entries = typeof given === "object" && given !== null ? Object.entries(given) : [["", given]];
  if (entries.length === 0) return null;
  return (
    <dl className="grid max-h-60 gap-2 overflow-auto rounded-md border border-line bg-surface p-3 text-xs" tabIndex={0} role="group" aria-label="What it is about">
      {entries.map(([name, value]) => (
        <div key={String(name)} className="grid gap-0.5">
          <dt className="text-faint">{String(name).replaceAll("_", " ")}</dt>
          <dd className="font-mono break-words whitespace-pre-wrap">{typeof value === "string" ? value : JSON.stringify(value, null, 2)}</dd>
        </div>
      ))}
    </dl>
  );
}

function Decision({ approval }: { approval: Approval }) {
  const approve = $api.useMutation("post", "/api/approvals/{approval_id}/approve");
  const reject = $api.useMutation("post", "/api/approvals/{approval_id}/reject");
  const [always, setAlways] = useState(false);
  const [words, setWords] = useState("");
  const [rejecting, setRejecting] = useState(false);
  const params = { path: { approval_id: approval.id } };
  const question = approval.kind === "question";
  const busy = approve.isPending || reject.isPending;
  const decided = approve.isSuccess || reject.isSuccess;
  const error = approve.error ?? reject.error;
  const yes = () => approve.mutate({ params, body: question ? { answer: words.trim(), always: false } : { always } });
  const no = () => reject.mutate({ params, body: { reason: words.trim() || null } });
  return (
    <form
      className="grid gap-3"
      onSubmit={(event) => {
        event.preventDefault();
        if (rejecting) no();
        else yes();
      }}
    >
      {question && !rejecting && <TextArea label="Your answer" value={words} rows={2} onChange={(event) => setWords(event.target.value)} />}
      {rejecting && (
        <TextField label="Why not?" hint="The agent is told. You may leave it empty." value={words} autoFocus onChange={(event) => setWords(event.target.value)} />
      )}
      {approval.kind === "tool" && !rejecting && (
        <Checkbox label="Always allow this tool" hint="For the rest of this session, or until the team is restarted, whatever it is given." checked={always} onChange={(event) => setAlways(event.target.checked)} />
      )}
      {error ? <Problem error={error} /> : null}
      <div className="flex flex-wrap gap-2">
        {rejecting ? (
          <>
            <Button type="submit" look="danger" busy={busy} disabled={decided}>
              Reject
            </Button>
            <Button disabled={busy || decided} onClick={() => setRejecting(false)}>
              Back
            </Button>
          </>
        ) : (
          <>
            <Button type="submit" look="primary" icon={<Check size={15} />} busy={busy} disabled={decided || (question && words.trim() === "")}>
              {question ? "Answer" : "Approve"}
            </Button>
            <Button icon={<X size={15} />} disabled={busy || decided} onClick={() => setRejecting(true)}>
              Reject
            </Button>
          </>
        )}
      </div>
    </form>
  );
}
