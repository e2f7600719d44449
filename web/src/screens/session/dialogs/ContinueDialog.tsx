import { useState } from "react";

import { $api } from "@/api/client";
import type { Schemas } from "@/api/types";
import { Button } from "@/ui/Button";
import { CopyCurl } from "@/ui/Copy";
import { Dialog } from "@/ui/Dialog";
import { TextArea } from "@/ui/Field";
import { Problem } from "@/ui/Problem";

import { Consequences } from "./Consequences";
import { ModelField } from "./ModelField";

/** Gives a session that has ended more to do. */
export function ContinueDialog({ session, onClose }: { session: Schemas["SessionDetails"]; onClose: () => void }) {
  const [prompt, setPrompt] = useState("");
  const [model, setModel] = useState("");
  const more = $api.useMutation("post", "/api/sessions/{session_id}/continue");
  const body = { prompt, model: model || null };
  const send = async () => {
    await more.mutateAsync({ params: { path: { session_id: session.id } }, body });
    onClose();
  };
  return (
    <Dialog
      title="Continue this session"
      onClose={onClose}
      footer={
        <>
          <span className="mr-auto self-center">
            <CopyCurl method="POST" path={`/api/sessions/${session.id}/continue`} body={body} />
          </span>
          <Button onClick={onClose}>Not now</Button>
          <Button look="primary" busy={more.isPending} disabled={!prompt.trim()} onClick={() => void send().catch(() => undefined)}>
            Continue
          </Button>
        </>
      }
    >
      <TextArea label="What to do next" autoFocus rows={4} value={prompt} onChange={(event) => setPrompt(event.target.value)} />
      <ModelField usual={session.model} value={model} onChange={setModel} />
      <Consequences
        session="Goes on with its whole conversation; its limits of turns and time count anew."
        files="It works on with the files as they are now."
        outside="Nothing happens but what its tools do from here on."
        cost="Its new model calls; its budget counts for its whole life and does not start over."
      />
      {more.error && <Problem error={more.error} />}
    </Dialog>
  );
}
