import { Link } from "@tanstack/react-router";
import { ArrowRight, Brain } from "lucide-react";

import { Badge } from "@/ui/Badge";

import { Block, JsonBlock } from "./Block";
import type { Step } from "./journal";
import { Plan } from "./Plan";
import { Rich } from "./Rich";
import { argumentsOf, decoded, field, nameOf, type Part, partsOf, type PlanItem, textIn } from "./steps";

/** What went into a step and what came out of it, in the way of its kind. */
export function StepBody({ step }: { step: Step }) {
  switch (step.kind) {
    case "message":
      return <Block label={nameOf(step)} text={textIn(step.output, "text")} tall />;
    case "model":
      return <Answer step={step} />;
    case "tool":
      return <ToolCall step={step} />;
    case "gate":
      return <Verdict step={step} />;
    case "approval":
      return <Decision step={step} />;
    case "state":
      return <Change step={step} />;
    case "rollback":
      return (
        <p className="text-sm text-soft">
          The session went back to step {step.parent}, files and conversation together
          {textIn(step.output, "by") && `, because ${textIn(step.output, "by")} asked for it`}. Steps in between are kept
          here and are no longer in force.
        </p>
      );
    case "checkpoint":
      return (
        <p className="text-sm text-soft">
          A named place to go back to{step.has_files ? ", with the files as they were" : ""}.
        </p>
      );
    case "compaction":
      return <Summary step={step} />;
  }
}

function Answer({ step }: { step: Step }) {
  const parts = partsOf(step);
  if (parts.length === 0) {
    return <JsonBlock label={step.status === "failed" ? "What went wrong" : "Answer"} value={step.output} />;
  }
  return (
    <div className="grid gap-3">
      {parts.map((part, index) => (
        <AnswerPart key={index} part={part} />
      ))}
    </div>
  );
}

function AnswerPart({ part }: { part: Part }) {
  if (part.part_kind === "text") return <Rich text={part.content ?? ""} />;
  if (part.part_kind === "thinking") {
    return (
      <details className="rounded-md border border-line">
        <summary className="flex min-h-9 items-center gap-2 px-3 text-xs font-medium text-soft">
          <Brain size={14} aria-hidden /> Thinking
        </summary>
        <p className="border-t border-line p-3 text-sm whitespace-pre-wrap text-soft">{part.content}</p>
      </details>
    );
  }
  if (part.part_kind === "tool-call") return <Arguments label={`Calls ${part.tool_name ?? "a tool"}`} value={decoded(part.args)} />;
  return <JsonBlock label={part.part_kind} value={part} />;
}

/** The arguments of a call; texts of several lines are shown as such. */
function Arguments({ label, value }: { label: string; value: unknown }) {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return <JsonBlock label={label} value={value ?? {}} />;
  const entries = Object.entries(value);
  const long = entries.filter((entry): entry is [string, string] => typeof entry[1] === "string" && /\n/.test(entry[1]));
  const rest = Object.fromEntries(entries.filter(([name]) => !long.some(([other]) => other === name)));
  if (long.length === 0) return <JsonBlock label={label} value={value} />;
  return (
    <div className="grid gap-2">
      {Object.keys(rest).length > 0 && <JsonBlock label={label} value={rest} />}
      {long.map(([name, text]) => (
        <Block key={name} label={`${label}: ${name}`} text={text} />
      ))}
    </div>
  );
}

function ToolCall({ step }: { step: Step }) {
  const exit = field(step.output, "exit_code");
  const plan = field(step.output, "plan");
  const agents = field(step.output, "agents");
  const text = textIn(step.output, "text");
  return (
    <div className="grid gap-3">
      <Arguments label="Arguments" value={argumentsOf(step) ?? step.input} />
      <div className="flex flex-wrap gap-2 empty:hidden">
        {typeof exit === "number" && <Badge tone={exit === 0 ? "good" : "bad"}>Exit code {exit}</Badge>}
        {field(step.output, "denied") === true && <Badge tone="bad">Denied</Badge>}
        {field(step.output, "stopped") === true && <Badge tone="calm">Not made</Badge>}
        {textIn(step.output, "code") && <Badge tone="bad">{textIn(step.output, "code")}</Badge>}
      </div>
      {Array.isArray(plan) ? <Plan items={plan as PlanItem[]} /> : null}
      {Array.isArray(agents) ? <Agents agents={agents as Agent[]} /> : null}
      {text ? <Block label="Result" text={text} /> : <JsonBlock label="Result" value={step.output} />}
    </div>
  );
}

interface Agent {
  id: string;
  title: string;
  state: string;
}

function Agents({ agents }: { agents: Agent[] }) {
  return (
    <ul className="grid gap-1">
      {agents.map((agent) => (
        <li key={agent.id}>
          <Link to="/sessions/$sessionId" params={{ sessionId: agent.id }} className="text-sm text-accent-ink underline">
            {agent.title}
          </Link>
        </li>
      ))}
    </ul>
  );
}

function Verdict({ step }: { step: Step }) {
  const passed = field(step.output, "passed") === true;
  const output = textIn(step.output, "output");
  const { passed: _passed, reason: _reason, output: _output, ...rest } = (step.output ?? {}) as Record<string, unknown>;
  return (
    <div className="grid gap-3">
      <p className="flex flex-wrap items-center gap-2 text-sm">
        <Badge tone={passed ? "good" : "bad"}>{passed ? "Passed" : "Not passed"}</Badge>
        <span className="text-soft">{textIn(step.input, "kind")} gate</span>
      </p>
      <p className="text-sm break-words">{textIn(step.output, "reason")}</p>
      {output && <Block label="Output" text={output} />}
      {Object.keys(rest).length > 0 && <JsonBlock label="Evidence" value={rest} />}
    </div>
  );
}

function Decision({ step }: { step: Step }) {
  const state = textIn(step.output, "state");
  const by = textIn(step.output, "by");
  const reason = textIn(step.output, "reason");
  const answer = textIn(step.output, "answer");
  return (
    <div className="grid gap-2 text-sm">
      <p className="flex flex-wrap items-center gap-2">
        <Badge tone={state === "approved" ? "good" : "bad"}>{state}</Badge>
        <span className="text-soft">{by ? `by ${by}` : "by the rules of the session"}</span>
        {field(step.output, "always") === true && <Badge tone="info">for the rest of the session</Badge>}
      </p>
      {answer && <Block label="Answer" text={answer} />}
      {reason && <Block label="Reason" text={reason} />}
    </div>
  );
}

function Change({ step }: { step: Step }) {
  const reason = textIn(step.output, "reason");
  return (
    <div className="grid gap-2 text-sm">
      <p className="flex flex-wrap items-center gap-2 text-soft">
        <code>{textIn(step.input, "from")}</code>
        <ArrowRight size={14} aria-label="became" />
        <code className="text-ink">{step.name}</code>
      </p>
      {reason && <p className="break-words text-soft">{reason}</p>}
    </div>
  );
}

function Summary({ step }: { step: Step }) {
  const text = textIn(step.output, "text") || textIn(step.output, "summary");
  return (
    <div className="grid gap-2">
      <p className="text-sm text-soft">From here on, this summary takes the place of the older part of the conversation.</p>
      {text ? <Rich text={text} /> : <JsonBlock label="Summary" value={step.output} />}
    </div>
  );
}
