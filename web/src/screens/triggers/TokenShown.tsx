import { useMutation } from "@tanstack/react-query";
import { KeyRound, Send } from "lucide-react";
import { useState } from "react";

import { serverUrl } from "@/lib/base";
import { Button } from "@/ui/Button";
import { CopyButton, ShownOnce } from "@/ui/Copy";
import { TextArea } from "@/ui/Field";
import { Problem } from "@/ui/Problem";
import { RunBadge } from "@/ui/states";

import { promptOf } from "./form";
import { dropToken } from "./freshTokens";
import { exampleBody, hookCurl, variablesOf } from "./template";
import { fire, type Webhook } from "./webhookQueries";

/** The secret address of a webhook, shown once, with a call to copy and a way to try it. */
export function TokenShown({ webhook, token }: { webhook: Webhook; token: string }) {
  const [body, setBody] = useState(() => JSON.stringify(exampleBody(variablesOf(promptOf(webhook))), null, 2));
  const fault = jsonFault(body);
  const test = useMutation({ mutationFn: fire });
  const line = hookCurl(body, token);
  return (
    <section aria-labelledby="secret-address" className="grid gap-4 rounded-lg border border-accent bg-surface p-4 shadow-card">
      <header className="flex items-start gap-3">
        <span className="grid size-9 shrink-0 place-items-center rounded-full bg-accent-soft text-accent-ink">
          <KeyRound size={17} aria-hidden />
        </span>
        <div className="min-w-0 flex-1">
          <h2 id="secret-address" className="text-base font-semibold">
            Its secret address
          </h2>
          <p className="text-sm text-soft">Shown only now: copy it before you reload this page. Whoever knows it can send, so treat it as a password.</p>
        </div>
        <Button size="small" onClick={() => dropToken(webhook.id)}>
          I have copied it
        </Button>
      </header>
      <ShownOnce label="address" text={serverUrl(`/api/hooks/${token}`)} />
      <div className="grid gap-4 lg:grid-cols-2">
        <form
          className="grid content-start gap-3"
          onSubmit={(event) => {
            event.preventDefault();
            test.mutate({ token, body });
          }}
        >
          <TextArea label="What is sent" mono rows={7} spellCheck={false} value={body} error={fault} onChange={(event) => setBody(event.target.value)} />
          <div className="flex flex-wrap items-center gap-3">
            <Button type="submit" icon={<Send size={14} />} busy={test.isPending} disabled={fault !== undefined || !webhook.enabled}>
              Send it now
            </Button>
            <span className="text-xs text-faint">{webhook.enabled ? "Starts a real run." : "Switch the webhook on to send."}</span>
          </div>
        </form>
        <div className="grid min-w-0 content-start gap-1.5">
          <p className="flex min-h-5 items-center justify-between text-sm font-medium">
            In a shell
            <CopyButton text={line} label="Copy as curl" />
          </p>
          <pre tabIndex={0} role="region" aria-label="The call as curl" className="overflow-x-auto rounded-md border border-line bg-sunken p-3 text-xs wrap-anywhere whitespace-pre-wrap">
            {line}
          </pre>
        </div>
      </div>
      <div aria-live="polite" className="grid gap-2 empty:hidden">
        {test.error ? <Problem error={test.error} /> : null}
        {test.data && (
          <div className="grid gap-2 rounded-md border border-line bg-sunken p-3 text-sm">
            <p className="flex flex-wrap items-center gap-2">
              It was taken. <RunBadge state={test.data.state} />
            </p>
            {(test.data.error ?? test.data.result) && <p className="max-h-40 overflow-y-auto break-words whitespace-pre-wrap text-soft">{test.data.error ?? test.data.result}</p>}
          </div>
        )}
      </div>
    </section>
  );
}

function jsonFault(text: string): string | undefined {
  try {
    JSON.parse(text);
    return undefined;
  } catch {
    return "This is not JSON.";
  }
}
