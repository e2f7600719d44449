import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";

import { $api } from "@/api/client";
import type { Schemas } from "@/api/types";
import { Button } from "@/ui/Button";
import { CopyCurl } from "@/ui/Copy";
import { Dialog } from "@/ui/Dialog";
import { Checkbox, TextArea } from "@/ui/Field";
import { Problem } from "@/ui/Problem";

import type { Step } from "../journal";
import { boundaryBefore } from "../steps";
import { Consequences } from "./Consequences";
import { ModelField } from "./ModelField";
import { StepField } from "./StepField";

interface Props {
  session: Schemas["SessionDetails"];
  steps: Step[];
  seq: number;
  onClose: () => void;
}

/** Makes a new session out of this one, up to a step. */
export function ForkDialog({ session, steps, seq, onClose }: Props) {
  const navigate = useNavigate();
  const [at, setAt] = useState(seq);
  const [prompt, setPrompt] = useState("");
  const [model, setModel] = useState("");
  const [run, setRun] = useState(true);
  const fork = $api.useMutation("post", "/api/sessions/{session_id}/fork");
  const begins = boundaryBefore(steps, at);
  const body = { seq: at, prompt: prompt.trim() ? prompt : null, model: model || null, run };
  const send = async () => {
    const made = await fork.mutateAsync({ params: { path: { session_id: session.id } }, body });
    onClose();
    await navigate({ to: "/sessions/$sessionId", params: { sessionId: made.id } });
  };
  return (
    <Dialog
      title="Fork into a new session"
      onClose={onClose}
      footer={
        <>
          <span className="mr-auto self-center">
            <CopyCurl method="POST" path={`/api/sessions/${session.id}/fork`} body={body} />
          </span>
          <Button onClick={onClose}>Not now</Button>
          <Button look="primary" busy={fork.isPending} onClick={() => void send().catch(() => undefined)}>
            Fork
          </Button>
        </>
      }
    >
      <StepField label="Last step that both share" steps={steps} value={at} onChange={setAt} />
      {begins !== at && (
        <p className="text-sm text-warn">
          Step {at} lies between tool calls and their results, so the new session begins after step {begins}.
        </p>
      )}
      <TextArea
        label="What to do instead"
        hint="Added to the conversation. Needed if the agent had finished at this step; otherwise it may be empty."
        value={prompt}
        onChange={(event) => setPrompt(event.target.value)}
      />
      <ModelField usual={session.model} value={model} onChange={setModel} />
      <Checkbox label="Start it at once" checked={run} onChange={(event) => setRun(event.target.checked)} />
      <Consequences
        session="Stays as it is; it may even be running. A new session shares its steps up to there."
        files={`The new session gets its own copy, as they were after step ${begins}.`}
        outside="Nothing is repeated and nothing is undone."
        cost="The shared steps are not paid for again; what the new session does is."
      />
      {fork.error && <Problem error={fork.error} />}
    </Dialog>
  );
}
