import { useState } from "react";

import { $api } from "@/api/client";
import type { Schemas } from "@/api/types";
import { Button } from "@/ui/Button";
import { CopyCurl } from "@/ui/Copy";
import { Dialog } from "@/ui/Dialog";
import { Problem } from "@/ui/Problem";

import type { Step } from "../journal";
import { boundaryBefore } from "../steps";
import { Preview, useRollbackPreview } from "./Preview";
import { StepField } from "./StepField";

interface Props {
  session: Schemas["SessionDetails"];
  steps: Step[];
  seq: number;
  onClose: () => void;
}

/** Takes this session back to a step, after showing what that undoes and what it cannot. */
export function RollBackDialog({ session, steps, seq, onClose }: Props) {
  const [at, setAt] = useState(seq);
  const to = boundaryBefore(steps, at);
  const preview = useRollbackPreview(session.id, to);
  const rollBack = $api.useMutation("post", "/api/sessions/{session_id}/rollback");
  const body = { to_seq: to };
  const send = async () => {
    await rollBack.mutateAsync({ params: { path: { session_id: session.id } }, body });
    onClose();
  };
  return (
    <Dialog
      title="Roll this session back"
      onClose={onClose}
      footer={
        <>
          <span className="mr-auto self-center">
            <CopyCurl method="POST" path={`/api/sessions/${session.id}/rollback`} body={body} />
          </span>
          <Button onClick={onClose}>Keep as it is</Button>
          <Button look="danger" busy={rollBack.isPending} disabled={!preview.data || preview.isPlaceholderData} onClick={() => void send().catch(() => undefined)}>
            Roll back to step {to}
          </Button>
        </>
      }
    >
      <StepField label="Last step that stays" steps={steps} value={at} onChange={setAt} />
      {to !== at && (
        <p className="text-sm text-warn">
          Step {at} lies between tool calls and their results; the last place before them is step {to}.
        </p>
      )}
      <Preview preview={preview} then="It stops there and waits until you continue it. You can undo this." />
      {rollBack.error && <Problem error={rollBack.error} />}
    </Dialog>
  );
}
