import { useNavigate } from "@tanstack/react-router";
import clsx from "clsx";
import { ArrowDown, MessagesSquare } from "lucide-react";
import { useCallback, useEffect, useRef, useState } from "react";

import { useMay } from "@/api/session";
import { readStored, writeStored } from "@/lib/stored";
import { Button } from "@/ui/Button";
import { Empty } from "@/ui/Empty";
import { Problem } from "@/ui/Problem";
import { Skeleton } from "@/ui/Skeleton";
import { Spinner } from "@/ui/Spinner";

import { type Team, useTeam } from "./agents";
import { Approvals } from "./Approvals";
import { Composer } from "./Composer";
import { Exchange } from "./Exchange";
import type { Send, Thread } from "./thread";
import { Unsent } from "./Unsent";
import { useAttachments } from "./useAttachments";
import { type Scroll, useReach, useScroll } from "./useScroll";
import { type Conversation, useThread } from "./useThread";

/** The conversation with a team, and where to write to it. */
export function Talk({ team, target }: { team: Team; target: string | undefined }) {
  const talk = useThread(team);
  const { thread } = talk;
  const scroll = useScroll(thread.messages[0]?.id);
  const mayWrite = useMay("messages:write");
  const navigate = useNavigate();
  const box = useRef<HTMLTextAreaElement>(null);
  const attachments = useAttachments(team.id);
  const [draft, setDraft] = useDraft(team.id);
  const [stopping, setStopping] = useState<string>();
  useTarget(talk, scroll, target);
  // On a phone this would cover half of the conversation with a keyboard.
  useEffect(() => {
    if (matchMedia("(pointer: fine)").matches) box.current?.focus();
  }, []);

  const isEmpty = thread.loaded && thread.messages.length === 0 && thread.sends.length === 0;
  const running = thread.messages.find((message) => message.state === "running");
  const { send, cancel, open, drop } = talk;
  const toEnd = scroll.toEnd;
  const say = useCallback<Conversation["send"]>(
    (text, files) => {
      // What is written belongs to the end: from a place in the past one is taken there.
      if (thread.newer) void open();
      if (target !== undefined) void navigate({ to: "/chat/$teamId", params: { teamId: team.id }, replace: true });
      send(text, files);
      toEnd();
    },
    [thread.newer, target, team.id, open, send, toEnd, navigate],
  );
  const again = useCallback((text: string) => say(text, []), [say]);
  const stop = () => {
    if (!running || stopping === running.id) return;
    setStopping(running.id);
    void cancel(running.id);
  };
  const edit = (failed: Send) => {
    drop(failed.key);
    setDraft(draft.trim() === "" ? failed.text : `${failed.text}\n\n${draft}`);
    attachments.restore(failed.attachments);
    box.current?.focus();
  };
  const toLatest = () => {
    if (target !== undefined) void navigate({ to: "/chat/$teamId", params: { teamId: team.id }, replace: true });
    if (thread.newer) void open().then(toEnd);
    else toEnd();
  };
  return (
    <>
      <div className="relative min-h-0 flex-1">
        <div
          ref={scroll.scroller}
          onScroll={scroll.onScroll}
          role="log"
          aria-live="off"
          aria-label={`Conversation with ${team.name}`}
          tabIndex={0}
          className="h-full overflow-y-auto [overflow-anchor:none] focus-visible:-outline-offset-2"
        >
          <div ref={scroll.content} className={clsx("mx-auto grid min-h-full w-full max-w-3xl gap-8 px-4 py-6", isEmpty ? "content-center" : "content-end")}>
            <h2 className="sr-only">Conversation</h2>
            <Messages talk={talk} scroll={scroll} target={target} mayWrite={mayWrite} onAgain={again} onExample={setDraft} />
            {!running && thread.loaded && <Approvals />}
            {thread.sends.map((each) => (
              <Unsent key={each.key} send={each} onResend={talk.resend} onEdit={edit} />
            ))}
          </div>
        </div>
        {(!scroll.following || thread.newer) && thread.loaded && (
          <Button className="absolute bottom-3 left-1/2 -translate-x-1/2 !rounded-full !shadow-float" size="small" icon={<ArrowDown size={14} />} onClick={toLatest}>
            Jump to latest
          </Button>
        )}
      </div>
      <p className="sr-only" role="status">
        {talk.announcement}
      </p>
      <div className="mx-auto w-full max-w-3xl px-4 pb-4">
        {mayWrite ? (
          <Composer box={box} text={draft} onText={setDraft} attachments={attachments} busy={running !== undefined} stopping={stopping !== undefined && stopping === running?.id} onSend={say} onStop={stop} />
        ) : (
          <p className="rounded-lg border border-line p-3 text-center text-sm text-soft">You may read this conversation; writing needs another role.</p>
        )}
      </div>
    </>
  );
}

interface MessagesProps {
  talk: Conversation;
  scroll: Scroll;
  target: string | undefined;
  mayWrite: boolean;
  onAgain: (text: string) => void;
  onExample: (text: string) => void;
}

function Messages({ talk, scroll, target, mayWrite, onAgain, onExample }: MessagesProps) {
  const { thread, problem, cancel } = talk;
  const older = async () => {
    scroll.hold();
    await talk.loadOlder();
  };
  const top = useReach(scroll.scroller, () => void older(), thread.older);
  const bottom = useReach(scroll.scroller, () => void talk.loadNewer(), thread.newer);
  const onCancel = useCallback((messageId: string) => void cancel(messageId), [cancel]);
  if (!thread.loaded) return problem ? <Problem error={problem} retry={() => void talk.open(target)} /> : <Waiting />;
  if (thread.messages.length === 0 && thread.sends.length === 0) return <Beginning onExample={onExample} />;
  return (
    <>
      {problem && <Problem error={problem} retry={() => void older()} />}
      {thread.older && (
        <div ref={top} className="flex justify-center py-2 text-xs text-faint">
          <Spinner />
          <span className="sr-only">Older messages are on their way</span>
        </div>
      )}
      {thread.messages.map((message) => (
        <Exchange
          key={message.id}
          message={message}
          heard={thread.heard[message.id]}
          ahead={message.state === "queued" ? aheadOf(thread, message.position) : 0}
          aimed={message.id === target}
          mayWrite={mayWrite}
          onCancel={onCancel}
          onAgain={onAgain}
        />
      ))}
      {thread.newer && <div ref={bottom} className="h-4" />}
    </>
  );
}

function aheadOf(thread: Thread, position: number): number {
  return thread.messages.filter((message) => message.state === "queued" && message.position <= position).length;
}

function Waiting() {
  return (
    <div role="status" aria-label="Loading the conversation" className="grid gap-8 self-start">
      <Skeleton className="h-11 w-2/5 justify-self-end" />
      <Skeleton className="h-28 w-4/5" />
      <Skeleton className="h-11 w-1/3 justify-self-end" />
      <Skeleton className="h-40 w-4/5" />
    </div>
  );
}

const EXAMPLES = ["What can you do for me?", "What is 12 * 7?", "Write a haiku generator in Python and test it"];

function Beginning({ onExample }: { onExample: (text: string) => void }) {
  const team = useTeam();
  return (
    <Empty
      icon={MessagesSquare}
      title={`Say something to ${team.name}`}
      action={
        <div className="flex flex-wrap justify-center gap-2">
          {EXAMPLES.map((text) => (
            <Button key={text} size="small" onClick={() => onExample(text)}>
              {text}
            </Button>
          ))}
        </div>
      }
    >
      {team.description || "Your message goes to the leader, who hands parts of it to the workers and answers."}
    </Empty>
  );
}

/** Opens the conversation, at the message that a link leads to. */
function useTarget(talk: Conversation, scroll: Scroll, target: string | undefined): void {
  const { open, thread } = talk;
  const { show } = scroll;
  const there = target !== undefined && thread.messages.some((message) => message.id === target);
  const asked = useRef<string | null>(null);
  useEffect(() => {
    const wanted = target ?? "";
    if (asked.current === wanted) return;
    const first = asked.current === null;
    asked.current = wanted;
    if (first || (target !== undefined && !there)) void open(target);
  }, [target, there, open]);
  useEffect(() => {
    const element = there ? document.getElementById(`message-${target}`) : null;
    if (element) show(element);
  }, [there, target, show]);
}

/** What was begun to be written, kept in this browser for each team. */
function useDraft(teamId: string): [string, (text: string) => void] {
  const name = `draft.${teamId}`;
  const [draft, setDraft] = useState(() => readStored(name) ?? "");
  const set = useCallback(
    (text: string) => {
      setDraft(text);
      writeStored(name, text === "" ? null : text);
    },
    [name],
  );
  return [draft, set];
}
