import { useState } from "react";

import { $api } from "@/api/client";
import { itemsOf, paged } from "@/api/paging";
import type { Schemas } from "@/api/types";
import { Button } from "@/ui/Button";
import { CopyCurl } from "@/ui/Copy";
import { Dialog } from "@/ui/Dialog";
import { SelectField, TextArea } from "@/ui/Field";
import { Problem } from "@/ui/Problem";
import { Skeleton } from "@/ui/Skeleton";

import type { Step } from "../journal";
import { boundaryBefore } from "../steps";
import { ModelField } from "./ModelField";
import { Preview, useRollbackPreview } from "./Preview";

type Session = Schemas["SessionDetails"];
type Checkpoint = Schemas["CheckpointRead"];

interface Props {
  session: Session;
  steps: Step[];
  onClose: () => void;
}

/** Takes this session back to one of its checkpoints and lets it run on from there. */
export function RestoreDialog({ session, steps, onClose }: Props) {
  const query = $api.useInfiniteQuery(
    "get",
    "/api/sessions/{session_id}/checkpoints",
    { params: { path: { session_id: session.id }, query: { limit: 200 } } },
    paged,
  );
  const checkpoints = itemsOf(query.data);
  if (checkpoints.length > 0) return <Restore session={session} steps={steps} checkpoints={checkpoints} onClose={onClose} />;
  return (
    <Dialog title="Restore a checkpoint" onClose={onClose} footer={<Button onClick={onClose}>Close</Button>}>
      {query.error && <Problem error={query.error} retry={() => void query.refetch()} />}
      {query.isPending ? <Skeleton className="h-24" /> : <p className="text-sm text-soft">This session has no checkpoints yet. Roll back to a step instead, or make a checkpoint first.</p>}
    </Dialog>
  );
}

function Restore({ session, steps, checkpoints, onClose }: Props & { checkpoints: Checkpoint[] }) {
  const [id, setId] = useState(checkpoints.at(-1)!.id);
  const [prompt, setPrompt] = useState("");
  const [model, setModel] = useState("");
  const chosen = checkpoints.find((each) => each.id === id) ?? checkpoints.at(-1)!;
  const preview = useRollbackPreview(session.id, boundaryBefore(steps, chosen.seq));
  const restore = $api.useMutation("post", "/api/checkpoints/{checkpoint_id}/restore");
  const body = { prompt: prompt.trim() ? prompt : null, model: model || null };
  const send = async () => {
    await restore.mutateAsync({ params: { path: { checkpoint_id: chosen.id } }, body });
    onClose();
  };
  return (
    <Dialog
      title="Restore a checkpoint"
      onClose={onClose}
      footer={
        <>
          <span className="mr-auto self-center">
            <CopyCurl method="POST" path={`/api/checkpoints/${chosen.id}/restore`} body={body} />
          </span>
          <Button onClick={onClose}>Keep as it is</Button>
          <Button look="danger" busy={restore.isPending} disabled={!preview.data || preview.isPlaceholderData} onClick={() => void send().catch(() => undefined)}>
            Restore and run
          </Button>
        </>
      }
    >
      <SelectField label="Checkpoint" value={chosen.id} onChange={(event) => setId(event.target.value)}>
        {checkpoints.map((each) => (
          <option key={each.id} value={each.id}>
            {each.name}, step {each.seq}
            {each.in_force ? "" : " (undone)"}
          </option>
        ))}
      </SelectField>
      <TextArea
        label="What to do from there"
        hint="Needed if the agent had finished at this checkpoint; otherwise it goes on with what it was doing."
        value={prompt}
        onChange={(event) => setPrompt(event.target.value)}
      />
      <ModelField usual={session.model} value={model} onChange={setModel} />
      <Preview preview={preview} then="Then it runs on at once, and its limits count anew. You can undo this." />
      {restore.error && <Problem error={restore.error} />}
    </Dialog>
  );
}
