import { TriangleAlert } from "lucide-react";

import { $api } from "@/api/client";
import type { Schemas } from "@/api/types";
import { formatMoney, plural } from "@/lib/format";
import { Problem } from "@/ui/Problem";
import { Skeleton } from "@/ui/Skeleton";

import { Consequences } from "./Consequences";

type RollbackPreview = Schemas["RollbackPreview"];

/** What going back to a step would do, as the server sees it now. */
export function useRollbackPreview(sessionId: string, seq: number) {
  return $api.useQuery(
    "get",
    "/api/sessions/{session_id}/rollback",
    { params: { path: { session_id: sessionId }, query: { to_seq: seq } } },
    // Something may have happened since the dialog was open last.
    { staleTime: 0, placeholderData: (before) => before },
  );
}

interface Props {
  preview: ReturnType<typeof useRollbackPreview>;
  /** What becomes of the session when it is back there. */
  then: string;
}

/** What going back undoes, and what it cannot undo. */
export function Preview({ preview, then }: Props) {
  const { data, error } = preview;
  if (error) return <Problem error={error} retry={() => void preview.refetch()} />;
  if (!data) return <Skeleton className="h-44" />;
  return (
    <>
      <Consequences
        session={`${stepsChange(data)} ${then}`}
        files={filesChange(data)}
        outside={data.effects.length === 0 ? "These steps changed nothing outside of the workspace." : `${plural(data.effects.length, "effect")} outside cannot be undone, see below.`}
        cost={data.cost_micros > 0 ? `The undone steps cost ${formatMoney(data.cost_micros)}; that stays spent.` : "Going back is free; what was spent stays spent."}
      />
      {data.effects.length > 0 && <Effects effects={data.effects} />}
      {data.files.length > 0 && <FileList preview={data} />}
    </>
  );
}

function stepsChange(data: RollbackPreview): string {
  const undone = data.undone.length + data.more_undone;
  const restored = data.restored.length + data.more_restored;
  const said = [
    undone > 0 ? `Goes back to step ${data.to_seq}: ${plural(undone, "step")} undone, but kept in the history.` : `Goes to step ${data.to_seq}.`,
    restored > 0 ? `${plural(restored, "step")} undone before ${restored === 1 ? "comes" : "come"} back.` : "",
    data.withdrawn_approvals > 0 ? `${plural(data.withdrawn_approvals, "approval")} withdrawn.` : "",
    data.cancelled_sub_agents > 0 ? `${plural(data.cancelled_sub_agents, "running sub-agent")} cancelled.` : "",
  ];
  return said.filter(Boolean).join(" ");
}

function filesChange(data: RollbackPreview): string {
  const count = data.files.length + data.more_files;
  return count === 0 ? "Stay as they are: they are the same at that step." : `Go back with it: ${plural(count, "file")} will change.`;
}

function Effects({ effects }: { effects: RollbackPreview["effects"] }) {
  return (
    <div className="grid gap-1.5 rounded-lg bg-warn-soft p-3.5 text-sm">
      <p className="flex items-center gap-2 font-medium text-warn">
        <TriangleAlert size={16} aria-hidden /> What happened outside, and stays
      </p>
      <ul className="grid gap-1 text-soft">
        {effects.map((effect) => (
          <li key={effect.seq}>
            Step {effect.seq}, <code>{effect.name}</code>: {effect.reason === "outside" ? "what it did is not undone." : "whether it happened is not known."}
          </li>
        ))}
      </ul>
    </div>
  );
}

const WORDS = { added: "comes back", changed: "changes", removed: "is removed" };

function FileList({ preview }: { preview: RollbackPreview }) {
  return (
    <details className="rounded-lg border border-line text-sm">
      <summary className="min-h-9 px-3 py-2 font-medium">Files that change</summary>
      <ul className="max-h-48 overflow-y-auto border-t border-line px-3 py-2">
        {preview.files.map((file) => (
          <li key={file.path} className="flex justify-between gap-3 py-0.5">
            <span className="min-w-0 font-mono text-xs break-all">{file.path}</span>
            <span className="shrink-0 text-xs text-soft">{WORDS[file.kind]}</span>
          </li>
        ))}
        {preview.more_files > 0 && <li className="py-0.5 text-xs text-soft">and {preview.more_files} more</li>}
      </ul>
    </details>
  );
}
