import { Check, CheckCheck, HandHelping, X } from "lucide-react";
import { type FormEvent, useState } from "react";

import { $api } from "@/api/client";
import { useMay } from "@/api/session";
import type { Schemas } from "@/api/types";
import { formatMoment } from "@/lib/format";
import { useShortcut } from "@/shell/shortcuts";
import { Button } from "@/ui/Button";
import { TextArea, TextField } from "@/ui/Field";
import { Kbd } from "@/ui/Kbd";
import { Problem } from "@/ui/Problem";
import { Time } from "@/ui/Time";

import { Block, JsonBlock } from "./Block";
import { field, textIn } from "./steps";

type Approval = Schemas["ApprovalRead"];

/** What a session waits for a person to decide; nothing if it does not. */
export function Approvals({ sessionId }: { sessionId: string }) {
  const { data, error, refetch } = $api.useQuery("get", "/api/approvals", {
    params: { query: { session_id: sessionId } },
  });
  if (error) return <Problem error={error} retry={() => void refetch()} />;
  const waiting = data?.items ?? [];
  return waiting.map((approval) => <Waiting key={approval.id} approval={approval} alone={waiting.length === 1} />);
}

const ASKS: Record<Approval["kind"], string> = {
  tool: "It wants to use",
  gate: "A gate waits for you",
  question: "It asks you",
};

function Waiting({ approval, alone }: { approval: Approval; alone: boolean }) {
  const may = useMay("approvals:write");
  const question = approval.kind === "question" ? approval.subject : textIn(approval.details, "question");
  return (
    <section aria-label="Needs you" className="grid gap-3 rounded-lg border border-line bg-warn-soft p-4 shadow-card">
      <header className="flex flex-wrap items-start justify-between gap-2">
        <h2 className="flex min-w-0 items-start gap-2 text-base font-semibold">
          <HandHelping size={20} className="mt-0.5 shrink-0 text-warn" aria-hidden />
          <span className="min-w-0 break-words">
            {ASKS[approval.kind]}
            {approval.kind === "tool" ? <code className="ml-1.5">{approval.subject}</code> : question ? `: ${question}` : null}
          </span>
        </h2>
        <p className="text-xs text-soft">
          Asked <Time at={approval.created_at} />, waits until {formatMoment(approval.expires_at)}; then it is{" "}
          {{ reject: "rejected", approve: "approved", fail: "a failure" }[approval.on_expiry]}
        </p>
      </header>
      <About approval={approval} />
      {may ? (
        <Decide approval={approval} alone={alone} />
      ) : (
        <p className="text-sm text-soft">Your role cannot decide this: ask a member of your organisation who can.</p>
      )}
    </section>
  );
}

/** What there is to know before deciding. */
function About({ approval }: { approval: Approval }) {
  if (approval.kind === "tool") return <JsonBlock label="Arguments" value={field(approval.details, "arguments") ?? approval.details} />;
  if (approval.kind === "question") return null;
  const files = field(approval.details, "files");
  return (
    <div className="grid gap-2">
      {textIn(approval.details, "result") && <Block label="What it came to" text={textIn(approval.details, "result")} />}
      {Array.isArray(files) && files.length > 0 && <p className="text-xs text-soft">Files: {files.join(", ")}</p>}
    </div>
  );
}

function Decide({ approval, alone }: { approval: Approval; alone: boolean }) {
  const [rejecting, setRejecting] = useState(false);
  const [answer, setAnswer] = useState("");
  const [reason, setReason] = useState("");
  const params = { params: { path: { approval_id: approval.id } } };
  const approve = $api.useMutation("post", "/api/approvals/{approval_id}/approve");
  const reject = $api.useMutation("post", "/api/approvals/{approval_id}/reject");
  const isQuestion = approval.kind === "question";
  const choices = field(approval.details, "choices");
  const busy = approve.isPending || reject.isPending || approve.isSuccess || reject.isSuccess;
  const say = (body: { always: boolean; answer?: string }) => approve.mutate({ ...params, body });
  const refuse = () => reject.mutate({ ...params, body: { reason: reason.trim() || null } });
  useShortcut("a", "Approve", () => say({ always: false }), alone && !isQuestion && !busy);
  useShortcut("r", "Reject", () => setRejecting(true), alone && !busy);

  const send = (event: FormEvent) => {
    event.preventDefault();
    if (rejecting) refuse();
    else if (answer.trim()) say({ always: false, answer: answer.trim() });
  };
  return (
    <form onSubmit={send} className="grid gap-3">
      {isQuestion && !rejecting && (
        <>
          {Array.isArray(choices) && choices.length > 0 && (
            <div className="flex flex-wrap gap-2">
              {choices.map((choice) => (
                <Button key={String(choice)} size="small" busy={busy} onClick={() => say({ always: false, answer: String(choice) })}>
                  {String(choice)}
                </Button>
              ))}
            </div>
          )}
          <TextArea label="Your answer" value={answer} onChange={(event) => setAnswer(event.target.value)} rows={2} />
        </>
      )}
      {rejecting && (
        <TextField
          label="Reason"
          hint="The agent is told, and goes on without it. May be empty."
          autoFocus
          value={reason}
          onChange={(event) => setReason(event.target.value)}
          onKeyDown={(event) => event.key === "Escape" && setRejecting(false)}
        />
      )}
      <div className="flex flex-wrap items-center gap-2">
        {rejecting ? (
          <>
            <Button type="submit" look="danger" busy={busy} icon={<X size={16} />}>
              Reject
            </Button>
            <Button look="quiet" onClick={() => setRejecting(false)}>
              Back
            </Button>
          </>
        ) : (
          <>
            {isQuestion ? (
              <Button type="submit" look="primary" busy={busy} disabled={!answer.trim()} icon={<Check size={16} />}>
                Answer
              </Button>
            ) : (
              <Button look="primary" busy={busy} icon={<Check size={16} />} onClick={() => say({ always: false })}>
                Approve {alone && <Key name="a" />}
              </Button>
            )}
            {approval.kind === "tool" && (
              <Button busy={busy} icon={<CheckCheck size={16} />} title="Allows this tool for the rest of this session, whatever it is given" onClick={() => say({ always: true })}>
                Approve always
              </Button>
            )}
            <Button busy={busy} icon={<X size={16} />} onClick={() => setRejecting(true)}>
              Reject… {alone && <Key name="r" />}
            </Button>
          </>
        )}
      </div>
      {approve.error && <Problem error={approve.error} />}
      {reject.error && <Problem error={reject.error} />}
    </form>
  );
}

function Key({ name }: { name: string }) {
  return (
    <span aria-hidden className="max-md:hidden">
      <Kbd keys={name} />
    </span>
  );
}
