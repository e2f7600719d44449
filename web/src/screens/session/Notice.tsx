import clsx from "clsx";
import { CircleAlert, CircleCheck, Hourglass, type LucideIcon, Undo2 } from "lucide-react";
import type { ReactNode } from "react";

import type { Schemas } from "@/api/types";
import { Button, LinkButton } from "@/ui/Button";

import type { Action, Allowed } from "./actions";
import type { Step } from "./journal";

interface Props {
  session: Schemas["SessionDetails"];
  steps: Step[];
  allowed: Allowed;
  /** It was complete while somebody watched. */
  justCompleted: boolean;
  onOpen: (action: Action) => void;
  onRollBack: (seq: number) => void;
}

/** The one thing to know about a session that does not simply go on, and what to do about it. */
export function Notice({ session, steps, allowed, justCompleted, onOpen, onRollBack }: Props) {
  if (session.state === "FAILED") {
    return (
      <Strip
        icon={CircleAlert}
        tone="bad"
        title={session.error_code === "cancelled" ? "It was cancelled" : "It failed"}
        actions={allowed.continue && <Button size="small" onClick={() => onOpen("continue")}>Continue with a prompt</Button>}
      >
        {session.error}
        {session.error_code && <code className="ml-2 text-xs text-soft">{session.error_code}</code>}
      </Strip>
    );
  }
  if (session.state === "ROLLED_BACK") return <RolledBack steps={steps} allowed={allowed} onOpen={onOpen} onRollBack={onRollBack} />;
  if (session.state === "PAUSED") return <Paused session={session} allowed={allowed} onOpen={onOpen} />;
  if (justCompleted && session.state === "COMPLETE") {
    return (
      <Strip
        icon={CircleCheck}
        tone="good"
        title="It is complete"
        actions={<LinkButton size="small" to="/sessions/$sessionId" params={{ sessionId: session.id }} search={{ tab: "result" }}>Show the result</LinkButton>}
      />
    );
  }
  return null;
}

function RolledBack({ steps, allowed, onOpen, onRollBack }: Pick<Props, "steps" | "allowed" | "onOpen" | "onRollBack">) {
  const rollback = steps.findLast((step) => step.kind === "rollback" && step.in_force);
  // Before a rollback stands the change of state to it; what that follows was the end of the session.
  const undo = rollback && steps[rollback.seq - 2]?.parent;
  return (
    <Strip
      icon={Undo2}
      tone="info"
      title={rollback ? `It went back to step ${rollback.parent}` : "It went back"}
      actions={
        <>
          {allowed.rollback && undo ? (
            <Button size="small" onClick={() => onRollBack(undo)}>
              Undo the rollback
            </Button>
          ) : null}
          {allowed.continue && (
            <Button size="small" onClick={() => onOpen("continue")}>
              Continue with a prompt
            </Button>
          )}
        </>
      }
    >
      Later steps are undone and kept in the timeline. Nothing happens until you continue it.
    </Strip>
  );
}

function Paused({ session, allowed, onOpen }: Pick<Props, "session" | "allowed" | "onOpen">) {
  if (session.waiting_for === "budget") {
    return (
      <Strip icon={CircleAlert} tone="bad" title="Its budget is used up" actions={allowed.budget && <Button size="small" onClick={() => onOpen("budget")}>Raise the budget</Button>}>
        It goes on by itself when there is room for its next model call.
      </Strip>
    );
  }
  if (session.waiting_for === "children") {
    return (
      <Strip icon={Hourglass} tone="info" title="It waits for its sub-agents">
        They are listed below; it goes on by itself when they have ended.
      </Strip>
    );
  }
  if (session.waiting_for === "retry") {
    return (
      <Strip icon={Hourglass} tone="warn" title="The model could not answer">
        It asks again by itself in a little while{session.error ? `: ${session.error}` : "."}
      </Strip>
    );
  }
  return null;
}

const TONES = {
  bad: { box: "bg-bad-soft", ink: "text-bad" },
  warn: { box: "bg-warn-soft", ink: "text-warn" },
  info: { box: "bg-info-soft", ink: "text-info" },
  good: { box: "bg-good-soft", ink: "text-good" },
};

interface StripProps {
  icon: LucideIcon;
  tone: keyof typeof TONES;
  title: string;
  actions?: ReactNode;
  children?: ReactNode;
}

function Strip({ icon: Icon, tone, title, actions, children }: StripProps) {
  return (
    <div role="status" className={clsx("flex flex-wrap gap-3 rounded-lg border border-line p-3.5 text-sm", children ? "items-start" : "items-center", TONES[tone].box)}>
      <Icon size={18} className={clsx("shrink-0", children && "mt-0.5", TONES[tone].ink)} aria-hidden />
      <div className="grid min-w-48 flex-1 gap-0.5">
        <p className="font-semibold">{title}</p>
        {children && <p className="break-words text-soft">{children}</p>}
      </div>
      {actions && <div className="flex flex-wrap gap-2">{actions}</div>}
    </div>
  );
}
