import { type FormEvent, useState } from "react";

import { $api } from "@/api/client";
import type { Schemas } from "@/api/types";
import { Button } from "@/ui/Button";
import { Confirm, Dialog } from "@/ui/Dialog";
import { TextField } from "@/ui/Field";
import { Problem } from "@/ui/Problem";
import { tell } from "@/ui/toasts";

interface Props {
  session: Schemas["SessionDetails"];
  onClose: () => void;
}

export function CancelDialog({ session, onClose }: Props) {
  const cancel = $api.useMutation("post", "/api/sessions/{session_id}/cancel");
  return (
    <Confirm
      title="Cancel this session?"
      action="Cancel the session"
      danger
      busy={cancel.isPending}
      error={cancel.error}
      onConfirm={() => cancel.mutate({ params: { path: { session_id: session.id } } }, { onSuccess: onClose })}
      onClose={onClose}
    >
      <p>It and its sub-agents stop at once, even in the middle of a model call or a tool. It is then failed, with the code “cancelled”.</p>
      <p>Its steps and files stay, and what happened outside stays as well. You can continue it later, fork it or roll it back.</p>
    </Confirm>
  );
}

export function CheckpointDialog({ session, onClose }: Props) {
  const [name, setName] = useState("");
  const make = $api.useMutation("post", "/api/sessions/{session_id}/checkpoints");
  const send = (event: FormEvent) => {
    event.preventDefault();
    make.mutate(
      { params: { path: { session_id: session.id } }, body: { name: name.trim() } },
      {
        onSuccess: (made) => {
          tell(`Checkpoint “${made.name}” is step ${made.seq}.`);
          onClose();
        },
      },
    );
  };
  return (
    <Dialog
      title="Checkpoint now"
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Not now</Button>
          <Button look="primary" form="checkpoint" type="submit" busy={make.isPending} disabled={!name.trim()}>
            Make checkpoint
          </Button>
        </>
      }
    >
      <form id="checkpoint" onSubmit={send} className="grid gap-3">
        <TextField label="Name" placeholder="before the change" autoFocus value={name} maxLength={200} onChange={(event) => setName(event.target.value)} />
        <p className="text-sm text-soft">Marks this moment, with its files, so that you can compare with it or go back to it. The session is not held up, and it costs nothing.</p>
      </form>
      {make.error && <Problem error={make.error} />}
    </Dialog>
  );
}

export function BudgetDialog({ session, onClose }: Props) {
  const [dollars, setDollars] = useState("");
  const put = $api.useMutation("put", "/api/budgets");
  const amount = Number(dollars);
  const valid = dollars.trim() !== "" && Number.isFinite(amount) && amount >= 0;
  const send = (event: FormEvent) => {
    event.preventDefault();
    put.mutate({ body: { scope: "session", subject_id: session.id, cap_micros: Math.round(amount * 1_000_000) } }, { onSuccess: onClose });
  };
  return (
    <Dialog
      title="Set the budget"
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Not now</Button>
          <Button look="primary" form="budget" type="submit" busy={put.isPending} disabled={!valid}>
            Set budget
          </Button>
        </>
      }
    >
      <form id="budget" onSubmit={send} className="grid gap-3">
        <TextField label="Budget in US dollars" inputMode="decimal" autoFocus value={dollars} onChange={(event) => setDollars(event.target.value)} hint="For its model calls, in its whole life, with what is spent already." />
        <p className="text-sm text-soft">A session that has used up its budget pauses; when the budget is raised, it goes on by itself.</p>
      </form>
      {put.error && <Problem error={put.error} />}
    </Dialog>
  );
}
