import { Link } from "@tanstack/react-router";
import clsx from "clsx";
import { CalendarClock, SquareActivity, Webhook, X } from "lucide-react";
import { memo, type ReactNode } from "react";

import { formatCount, formatDuration, formatMoney } from "@/lib/format";
import { Badge } from "@/ui/Badge";
import { Button } from "@/ui/Button";
import { CopyButton } from "@/ui/Copy";
import Markdown from "@/ui/markdown/Markdown";
import { Time } from "@/ui/Time";

import { AgentChip, AgentSign, useTeam } from "./agents";
import { type Heard, readDeed, type Words } from "./answer";
import { Approvals } from "./Approvals";
import { Attachments } from "./Attachments";
import { Deeds } from "./Deeds";
import { Ending } from "./Ending";
import { Said } from "./Said";
import { isOpen, type Message } from "./thread";

interface Props {
  message: Message;
  heard: Heard | undefined;
  /** How many messages are answered before this one. */
  ahead: number;
  /** A link leads to it. */
  aimed: boolean;
  mayWrite: boolean;
  onCancel: (messageId: string) => void;
  onAgain: (text: string) => void;
}

/** A message to the team, and what became of it. */
export const Exchange = memo(function Exchange({ message, heard, ahead, aimed, mayWrite, onCancel, onAgain }: Props) {
  return (
    <article
      id={`message-${message.id}`}
      aria-label={`Message of ${message.author}`}
      className={clsx("grid scroll-my-6 gap-4 rounded-lg [contain:layout]", aimed && "outline-2 outline-offset-8 outline-accent-ink")}
    >
      <Bubble by={<By message={message} />}>
        <Attachments attachments={message.attachments} />
        <Said text={message.text} />
      </Bubble>
      {message.state === "queued" ? (
        <Queued ahead={ahead} onCancel={mayWrite ? () => onCancel(message.id) : undefined} />
      ) : (
        <Reply message={message} heard={heard} onAgain={mayWrite ? onAgain : undefined} />
      )}
    </article>
  );
});

/** What somebody wrote, at the right. */
export function Bubble({ by, children }: { by?: ReactNode; children: ReactNode }) {
  return (
    <div className="grid max-w-full justify-items-end gap-1.5 justify-self-end sm:max-w-[85%]">
      {children}
      {by}
    </div>
  );
}

const SOURCES = {
  chat: undefined,
  schedule: { icon: CalendarClock, word: "by a schedule" },
  webhook: { icon: Webhook, word: "by a webhook" },
};

function By({ message }: { message: Message }) {
  const source = SOURCES[message.source];
  return (
    <p className="flex items-center gap-1.5 text-xs text-faint">
      {source && <source.icon size={13} aria-hidden />}
      <span className="truncate">{message.author}</span>
      {source && <span>{source.word}</span>}
      <Time at={message.created_at} className="shrink-0" />
    </p>
  );
}

function Queued({ ahead, onCancel }: { ahead: number; onCancel: (() => void) | undefined }) {
  const { deployed } = useTeam();
  const words = !deployed ? "Waits until the team is deployed" : ahead <= 1 ? "Next in line" : `Number ${ahead} in line`;
  return (
    <div className="flex items-center justify-end gap-2">
      <Badge dot>Queued</Badge>
      <span className="text-xs text-soft">{words}</span>
      {onCancel && (
        <Button size="small" look="quiet" icon={<X size={14} />} onClick={onCancel}>
          Cancel
        </Button>
      )}
    </div>
  );
}

function Reply({ message, heard, onAgain }: { message: Message; heard: Heard | undefined; onAgain: ((text: string) => void) | undefined }) {
  const { leader } = useTeam();
  const open = isOpen(message);
  const words = message.answer ? [{ agent: null, text: message.answer }] : (heard?.words ?? []);
  const deeds = open ? (heard?.deeds ?? []) : message.activity.map(readDeed);
  return (
    <div className="grid grid-cols-[auto_minmax(0,1fr)] gap-x-3 gap-y-3">
      <AgentSign name={leader.name} />
      <p className="flex items-center gap-2 self-center text-sm">
        <span className="font-semibold">{leader.name}</span>
        {message.finished_at && <Time at={message.finished_at} className="text-xs text-faint" />}
        {message.attempt > 1 && <Badge tone="warn">Attempt {message.attempt}</Badge>}
      </p>
      <div className="col-span-full grid min-w-0 gap-3 sm:col-span-1 sm:col-start-2">
        <Deeds deeds={deeds} />
        <Spoken words={words} growing={open} />
        {open ? (
          <>
            <Progress heard={heard} />
            <Approvals />
          </>
        ) : (
          <>
            <Ending message={message} onAgain={onAgain} />
            <Foot message={message} />
          </>
        )}
      </div>
    </div>
  );
}

/** Words, each with who said them. One component for an answer that grows and one that is whole:
 * what was read while it grew is not read again at its end. */
function Spoken({ words, growing }: { words: Words[]; growing: boolean }) {
  const { leader } = useTeam();
  return words.map((each, index) =>
    each.agent === null || each.agent === leader.name ? (
      <Markdown key={index} text={each.text} streaming={growing && index === words.length - 1} />
    ) : (
      <div key={index} className="grid justify-items-start gap-1.5 border-l-2 border-line pl-3 text-soft">
        <AgentChip name={each.agent} />
        <Markdown text={each.text} streaming={growing && index === words.length - 1} />
      </div>
    ),
  );
}

function Progress({ heard }: { heard: Heard | undefined }) {
  return (
    <p className="flex items-center gap-2 text-xs text-soft">
      <span aria-hidden className="size-2 shrink-0 animate-pulse-slow rounded-full bg-info" />
      {progress(heard)}
    </p>
  );
}

function progress(heard: Heard | undefined): string {
  if (heard?.unsure || heard?.missing === "middle") return "Catching up: some words were missed. The whole answer is shown when it is finished.";
  if (heard?.missing === "beginning") return "You came in the middle. The whole answer is shown when it is finished.";
  if (heard?.deeds.some((deed) => deed.state === "running")) return "At work";
  return "The answer is being written";
}

/** What it took: time, tokens, money. */
function Foot({ message }: { message: Message }) {
  const took = message.started_at && message.finished_at ? Date.parse(message.finished_at) - Date.parse(message.started_at) : undefined;
  const tokens = message.input_tokens + message.output_tokens;
  return (
    <div className="flex flex-wrap items-center gap-x-3 gap-y-1 text-xs text-faint">
      {message.answer && <CopyButton text={message.answer} label="Copy the answer" />}
      {took !== undefined && <span title="From the start of the work to its end">{formatDuration(took)}</span>}
      {tokens > 0 && (
        <span title={`${formatCount(message.input_tokens)} tokens in, ${formatCount(message.output_tokens)} tokens out`}>{formatCount(tokens)} tokens</span>
      )}
      {tokens > 0 && <span>{formatMoney(message.cost_micros)}</span>}
      {message.session_id && (
        <Link
          to="/sessions/$sessionId"
          params={{ sessionId: message.session_id }}
          className="inline-flex min-h-6 items-center gap-1 rounded-sm text-soft hover:text-ink hover:underline"
        >
          <SquareActivity size={13} aria-hidden />
          Session
        </Link>
      )}
    </div>
  );
}
