import { type FormEvent, useId, useRef, useState } from "react";

import { $api } from "@/api/client";
import { useMay } from "@/api/session";
import type { Schemas } from "@/api/types";
import { Button } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";
import { SelectField, TextArea, TextField } from "@/ui/Field";
import { Problem } from "@/ui/Problem";

import { AFTER, newPostAction, postActionBody, type PostActionForm, postActionOf, readHeaders, RUN_VARIABLES } from "./postAction";
import { forgetPostActions, type Source } from "./PostActions";
import { templateFault } from "./template";

type Setter = (change: Partial<PostActionForm>) => void;

/** Makes or changes a post-action. */
export function PostActionDialog({ source, action, onClose }: { source: Source; action: Schemas["PostActionRead"] | undefined; onClose: () => void }) {
  const [form, setForm] = useState<PostActionForm>(() => (action ? postActionOf(action) : newPostAction()));
  const set: Setter = (change) => setForm((before) => ({ ...before, ...change }));
  const options = {
    onSuccess: () => {
      forgetPostActions();
      onClose();
    },
  };
  const create = $api.useMutation("post", "/api/post-actions", options);
  const update = $api.useMutation("patch", "/api/post-actions/{post_action_id}", options);
  const error = create.error ?? update.error;
  const formId = useId();
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const body = postActionBody(form);
    if (action) update.mutate({ params: { path: { post_action_id: action.id } }, body });
    else create.mutate({ body: { ...body, ...source, enabled: true } });
  };
  const faulty = templateFault(form.url) ?? templateFault(form.body) ?? (readHeaders(form.headers) ? undefined : "headers");
  return (
    <Dialog
      wide
      title={action ? `Edit ${action.name}` : "Add a post-action"}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" form={formId} look="primary" busy={create.isPending || update.isPending} disabled={faulty !== undefined}>
            {action ? "Save" : "Add"}
          </Button>
        </>
      }
    >
      <form id={formId} onSubmit={submit} className="grid gap-4">
        <div className="grid gap-4 sm:grid-cols-2">
          <TextField label="Name" required maxLength={100} value={form.name} onChange={(event) => set({ name: event.target.value })} />
          <SelectField label="When" value={form.after} onChange={(event) => set({ after: event.target.value as PostActionForm["after"] })}>
            {Object.entries(AFTER).map(([value, name]) => (
              <option key={value} value={value}>
                {name}
              </option>
            ))}
          </SelectField>
        </div>
        <div className="grid grid-cols-[7rem_minmax(0,1fr)] gap-4">
          <SelectField label="Method" value={form.method} onChange={(event) => set({ method: event.target.value as PostActionForm["method"] })}>
            {["POST", "PUT", "PATCH", "GET", "DELETE"].map((method) => (
              <option key={method}>{method}</option>
            ))}
          </SelectField>
          <TextField label="URL" required inputMode="url" placeholder="https://chat.example.com/api/messages" value={form.url} error={templateFault(form.url)} onChange={(event) => set({ url: event.target.value })} />
        </div>
        <AuthFields form={form} set={set} />
        <BodyField form={form} set={set} stays={Boolean(action?.body)} />
        <div className="grid gap-4 sm:grid-cols-[minmax(0,1fr)_8rem]">
          <TextArea
            label="Headers"
            mono
            rows={2}
            value={form.headers}
            placeholder="X-Channel: reports"
            hint="One a line. Secrets belong into the vault, not here."
            error={readHeaders(form.headers) ? undefined : "Write each as Name: value."}
            onChange={(event) => set({ headers: event.target.value })}
          />
          <TextField label="Most attempts" type="number" min={1} max={20} required value={form.attempts} onChange={(event) => set({ attempts: event.target.value })} />
        </div>
      </form>
      {error ? <Problem error={error} /> : null}
    </Dialog>
  );
}

function AuthFields({ form, set }: { form: PostActionForm; set: Setter }) {
  const maySee = useMay("vault:read");
  const secrets = $api.useQuery("get", "/api/vault", { params: { query: { limit: 200 } } }, { enabled: maySee && form.auth !== "none" });
  const names = secrets.data?.items.map((secret) => secret.name) ?? [];
  return (
    <div className="grid gap-4 sm:grid-cols-3">
      <SelectField label="Signs in" value={form.auth} onChange={(event) => set({ auth: event.target.value as PostActionForm["auth"] })}>
        <option value="none">Not at all</option>
        <option value="bearer">With a bearer token</option>
        <option value="basic">With user and password</option>
        <option value="header">With a header</option>
      </SelectField>
      {form.auth !== "none" &&
        (maySee ? (
          <SelectField label="Secret" required value={form.secret} hint="From the vault; see Settings." onChange={(event) => set({ secret: event.target.value })}>
            <option value="">Choose a secret</option>
            {form.secret && !names.includes(form.secret) && <option>{form.secret}</option>}
            {names.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </SelectField>
        ) : (
          <TextField label="Secret" required value={form.secret} hint="Its name in the vault." onChange={(event) => set({ secret: event.target.value })} />
        ))}
      {form.auth === "basic" && <TextField label="User" required value={form.user} onChange={(event) => set({ user: event.target.value })} />}
      {form.auth === "header" && <TextField label="Header" required placeholder="X-Api-Key" value={form.header} onChange={(event) => set({ header: event.target.value })} />}
    </div>
  );
}

function BodyField({ form, set, stays }: { form: PostActionForm; set: Setter; stays: boolean }) {
  const frame = useRef<HTMLDivElement>(null);
  const insert = (name: string) => {
    const box = frame.current?.querySelector("textarea");
    const [start, end] = [box?.selectionStart ?? form.body.length, box?.selectionEnd ?? form.body.length];
    set({ body: `${form.body.slice(0, start)}{{${name}}}${form.body.slice(end)}` });
    box?.focus();
  };
  return (
    <div ref={frame} className="grid gap-2">
      <TextArea
        label="Body"
        mono
        rows={4}
        value={form.body}
        placeholder='{"text": "{{source.name}} is {{run.state}}"}'
        hint={stays ? "A template. It can be changed, but not emptied: for the run as JSON make a new post-action." : "A template. Empty: the run as JSON."}
        error={templateFault(form.body)}
        required={stays}
        onChange={(event) => set({ body: event.target.value })}
      />
      <div role="group" aria-label="Insert into the body" className="flex flex-wrap gap-1.5">
        {RUN_VARIABLES.map((name) => (
          <Button key={name} size="small" onClick={() => insert(name)}>
            <code>{`{{${name}}}`}</code>
          </Button>
        ))}
      </div>
    </div>
  );
}
