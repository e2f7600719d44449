import { useNavigate } from "@tanstack/react-router";
import { type FormEvent, useId, useState } from "react";

import { $api } from "@/api/client";
import type { Schemas } from "@/api/types";
import { Button } from "@/ui/Button";
import { CopyCurl } from "@/ui/Copy";
import { Dialog } from "@/ui/Dialog";
import { TextField } from "@/ui/Field";
import { Problem } from "@/ui/Problem";

import { newTarget, targetBody, targetChange, targetFault, targetOf } from "./form";
import { keepToken } from "./freshTokens";
import { TargetFields } from "./TargetFields";
import { templateFault } from "./template";
import { Variables } from "./Variables";
import { keepWebhook, oneWebhook, type Webhook } from "./webhookQueries";

/** Makes a webhook, or changes one. */
export function WebhookDialog({ webhook, onClose }: { webhook?: Webhook; onClose: () => void }) {
  const navigate = useNavigate();
  const formId = useId();
  const [name, setName] = useState(webhook?.name ?? "");
  const [target, setTarget] = useState(() => (webhook ? targetOf(webhook) : newTarget()));
  const [most, setMost] = useState(String(webhook?.max_unfinished ?? 20));
  const create = $api.useMutation("post", "/api/webhooks", {
    onSuccess: ({ token, path: _, ...made }) => {
      keepToken(made.id, token);
      keepWebhook(made);
      void navigate({ to: "/webhooks/$webhookId", params: { webhookId: made.id } });
    },
  });
  const update = $api.useMutation("patch", "/api/webhooks/{webhook_id}", {
    onSuccess: (changed) => {
      keepWebhook(changed);
      onClose();
    },
  });
  const body = { name: name.trim(), ...targetBody(target), max_unfinished: Number(most) };
  const fault = templateFault(target.prompt);
  const ready = name.trim() !== "" && !targetFault(target) && !fault && Number(most) >= 1;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (!ready) return;
    if (!webhook) create.mutate({ body: body as Schemas["WebhookCreate"] });
    else update.mutate({ ...oneWebhook(webhook.id), body: { name: name.trim(), max_unfinished: Number(most), ...targetChange(target, webhook) } });
  };
  const error = create.error ?? update.error;
  return (
    <Dialog
      wide
      title={webhook ? `Edit ${webhook.name}` : "New webhook"}
      onClose={onClose}
      footer={
        <>
          {!webhook && (
            <span className="mr-auto">
              <CopyCurl method="POST" path="/api/webhooks" body={body} />
            </span>
          )}
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" form={formId} look="primary" disabled={!ready} busy={create.isPending || update.isPending}>
            {webhook ? "Save" : "Create"}
          </Button>
        </>
      }
    >
      <form id={formId} onSubmit={submit} className="grid gap-4">
        <TextField label="Name" required maxLength={100} value={name} placeholder="Issues" onChange={(event) => setName(event.target.value)} />
        <TargetFields
          form={target}
          onChange={setTarget}
          fixed={webhook !== undefined}
          promptFault={fault}
          promptHint="A template: what stands in {{…}} comes from the JSON that is sent; {{name?}} may be missing."
          placeholder="A new issue: {{issue.title}}. Say what is to be done. {{issue.body?}}"
        />
        <Variables template={target.prompt} />
        <TextField
          label="Most runs at once"
          type="number"
          min={1}
          max={10_000}
          required
          className="max-w-56"
          value={most}
          hint="More are refused with 429 until some have ended."
          onChange={(event) => setMost(event.target.value)}
        />
      </form>
      {error ? <Problem error={error} /> : null}
    </Dialog>
  );
}
