import { Link } from "@tanstack/react-router";
import { CircleCheck, CircleDashed, CircleX, ShieldCheck, UserCheck } from "lucide-react";

import { $api } from "@/api/client";
import { itemsOf, paged } from "@/api/paging";
import type { Schemas } from "@/api/types";
import { formatDuration, plural } from "@/lib/format";
import { Badge, type Tone } from "@/ui/Badge";
import { Section } from "@/ui/Card";
import { Empty } from "@/ui/Empty";
import { More } from "@/ui/More";
import { Problem } from "@/ui/Problem";
import { Time } from "@/ui/Time";

import type { Step } from "./journal";
import { field, textIn } from "./steps";

/** What has to pass before a session is complete, and what people have decided on its way. */
export function Checks({ session, steps }: { session: Schemas["SessionDetails"]; steps: Step[] }) {
  const gates = field(session.config, "gates");
  return (
    <div className="grid gap-5">
      <Gates gates={Array.isArray(gates) ? (gates as Gate[]) : []} sessionId={session.id} steps={steps} />
      <Decisions sessionId={session.id} />
    </div>
  );
}

interface Gate {
  name: string;
  kind: string;
  on_fail?: string;
}

const ON_FAIL: Record<string, string> = {
  fail: "If not, the session fails.",
  retry: "If not, the agent is told why and goes on.",
  rollback: "If not, the session goes back to where the work began.",
};

function Gates({ gates, sessionId, steps }: { gates: Gate[]; sessionId: string; steps: Step[] }) {
  if (gates.length === 0) {
    return (
      <Empty icon={ShieldCheck} title="No gates">
        A gate is checked when the agent says that it is done: tests, a command, a file, cost, or a person. They are set when a session is made.
      </Empty>
    );
  }
  return (
    <Section title="Gates" note="Each has to pass before the session is complete.">
      <ul className="divide-y divide-line">
        {gates.map((gate) => (
          <GateRow key={gate.name} gate={gate} sessionId={sessionId} results={steps.filter((step) => step.kind === "gate" && step.name === gate.name)} />
        ))}
      </ul>
    </Section>
  );
}

function GateRow({ gate, sessionId, results }: { gate: Gate; sessionId: string; results: Step[] }) {
  const last = results.filter((step) => step.in_force).at(-1);
  const passed = last && field(last.output, "passed") === true;
  const Icon = !last ? CircleDashed : passed ? CircleCheck : CircleX;
  return (
    <li className="flex items-start gap-3 py-3 first:pt-0 last:pb-0">
      <Icon size={20} className={`mt-0.5 shrink-0 ${!last ? "text-faint" : passed ? "text-good" : "text-bad"}`} aria-hidden />
      <div className="grid min-w-0 flex-1 gap-1">
        <p className="flex flex-wrap items-center gap-2">
          <strong className="font-semibold break-words">{gate.name}</strong>
          <Badge tone={!last ? "calm" : passed ? "good" : "bad"}>{!last ? "Not checked" : passed ? "Passed" : "Not passed"}</Badge>
          <span className="text-xs text-faint">{gate.kind}</span>
        </p>
        {last ? <p className="line-clamp-3 text-sm break-words text-soft">{textIn(last.output, "reason")}</p> : <p className="text-sm text-soft">{ON_FAIL[gate.on_fail ?? "fail"]}</p>}
        {last && (
          <p className="text-xs text-faint">
            <Time at={last.at} />, took {formatDuration(last.duration_ms)}
            {results.length > 1 && `, checked ${plural(results.length, "time")}`} ·{" "}
            <Link to="/sessions/$sessionId" params={{ sessionId }} search={{ tab: "timeline", step: last.seq }} className="text-accent-ink underline">
              Step {last.seq}
            </Link>
          </p>
        )}
      </div>
    </li>
  );
}

const TONES: Record<Schemas["ApprovalRead"]["state"], Tone> = {
  waiting: "warn",
  approved: "good",
  rejected: "bad",
  expired: "calm",
  withdrawn: "calm",
};

function Decisions({ sessionId }: { sessionId: string }) {
  const query = $api.useInfiniteQuery(
    "get",
    "/api/approvals",
    { params: { query: { session_id: sessionId, state: "all" } } },
    paged,
  );
  const approvals = itemsOf(query.data);
  if (query.error) return <Problem error={query.error} retry={() => void query.refetch()} />;
  if (approvals.length === 0) return null;
  return (
    <Section title="Approvals">
      <ul className="divide-y divide-line">
        {approvals.map((approval) => (
          <li key={approval.id} className="flex items-start gap-3 py-3 first:pt-0 last:pb-0">
            <UserCheck size={20} className="mt-0.5 shrink-0 text-faint" aria-hidden />
            <div className="grid min-w-0 flex-1 gap-1">
              <p className="flex flex-wrap items-center gap-2">
                <strong className="font-semibold break-words">{textIn(approval.details, "question") || approval.subject}</strong>
                <Badge tone={TONES[approval.state]}>{approval.state}</Badge>
                <span className="text-xs text-faint">{approval.kind}</span>
              </p>
              {(approval.answer || approval.reason) && <p className="text-sm break-words text-soft">{approval.answer ?? approval.reason}</p>}
              <p className="text-xs text-faint">
                Asked <Time at={approval.created_at} />
                {approval.decided_at && (
                  <>
                    , decided <Time at={approval.decided_at} />
                    {approval.decided_by && ` by ${approval.decided_by}`}
                  </>
                )}
              </p>
            </div>
          </li>
        ))}
      </ul>
      <More query={query} />
    </Section>
  );
}
