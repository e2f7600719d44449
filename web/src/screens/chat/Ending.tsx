import { Link } from "@tanstack/react-router";
import { CircleAlert, CircleHelp, CircleStop } from "lucide-react";
import type { ReactNode } from "react";

import { Button } from "@/ui/Button";

import { useTeam } from "./agents";
import type { Message } from "./thread";

/** How a message ended that has no whole answer, and what to do about it. */
export function Ending({ message, onAgain }: { message: Message; onAgain: ((text: string) => void) | undefined }) {
  const again = onAgain && (
    <Button size="small" onClick={() => onAgain(message.text)}>
      Send again
    </Button>
  );
  if (message.state === "cancelled") {
    return (
      <p className="flex items-start gap-2 text-sm text-soft">
        <CircleStop size={16} aria-hidden className="mt-0.5 shrink-0" />
        Stopped. {message.error}
      </p>
    );
  }
  if (message.state === "uncertain") {
    return (
      <Note tone="bg-warn-soft" icon={<CircleHelp size={18} aria-hidden className="mt-0.5 shrink-0 text-warn" />} action={again}>
        <p className="font-medium">It is not certain what happened.</p>
        <p className="text-soft">
          The agent was given this message {message.attempt} times and was lost each time. What it did may have happened, so it is not repeated by itself. Look at what is
          there before you send it again.
        </p>
        {message.error && <p className="text-soft">{message.error}</p>}
      </Note>
    );
  }
  if (message.state !== "failed") return null;
  return (
    <Note tone="bg-bad-soft" icon={<CircleAlert size={18} aria-hidden className="mt-0.5 shrink-0 text-bad" />} action={again}>
      <p className="font-medium break-words">{message.error ?? "The answer failed."}</p>
      <Advice code={message.error_code} sessionId={message.session_id} />
    </Note>
  );
}

function Note({ tone, icon, action, children }: { tone: string; icon: ReactNode; action: ReactNode; children: ReactNode }) {
  return (
    <div className={`flex flex-wrap items-start gap-3 rounded-lg border border-line p-3.5 text-sm ${tone}`}>
      {icon}
      <div className="grid min-w-48 flex-1 gap-1">{children}</div>
      {action}
    </div>
  );
}

/** What to do about the errors that people can do something about. */
function Advice({ code, sessionId }: { code: string | null; sessionId: string | null }) {
  const team = useTeam();
  const link = "underline underline-offset-2 hover:text-ink";
  const words = code ?? "";
  return (
    <p className="text-soft">
      {/budget/.test(words) ? (
        <>
          The budget is used up:{" "}
          <Link to="/settings/$section" params={{ section: "budgets" }} className={link}>
            raise it
          </Link>
          , then send the message again.
        </>
      ) : /model|provider|auth|rate_limit|overload/.test(words) ? (
        <>
          The model could not be used:{" "}
          <Link to="/settings/$section" params={{ section: "providers" }} className={link}>
            look at the models
          </Link>
          , or send the message again later.
        </>
      ) : sessionId ? (
        <>
          The{" "}
          <Link to="/sessions/$sessionId" params={{ sessionId }} className={link}>
            session
          </Link>{" "}
          shows each step up to it.
        </>
      ) : (
        <>
          The{" "}
          <Link to="/teams/$teamId" params={{ teamId: team.id }} search={{ tab: "logs" }} className={link}>
            team's log
          </Link>{" "}
          shows what led to it.
        </>
      )}
    </p>
  );
}
