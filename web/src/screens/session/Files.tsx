import { useNavigate } from "@tanstack/react-router";
import clsx from "clsx";
import { FileText, FolderOpen } from "lucide-react";
import { useMemo, useState } from "react";

import { $api } from "@/api/client";
import { itemsOf, paged } from "@/api/paging";
import type { Schemas } from "@/api/types";
import { formatBytes, plural } from "@/lib/format";
import { Card } from "@/ui/Card";
import { Empty } from "@/ui/Empty";
import { SelectField } from "@/ui/Field";
import { Problem } from "@/ui/Problem";
import { SkeletonRows } from "@/ui/Skeleton";

import { onlyFiles } from "./onlyFiles";
import { FileView } from "./FileView";

type Change = Schemas["FileChange"];

const SIGNS: Record<Change["kind"], { sign: string; word: string; ink: string }> = {
  added: { sign: "+", word: "added", ink: "text-good bg-good-soft" },
  changed: { sign: "~", word: "changed", ink: "text-info bg-info-soft" },
  removed: { sign: "−", word: "removed", ink: "text-bad bg-bad-soft" },
};

interface Props {
  sessionId: string;
  /** The newest step. */
  last: number;
  /** The step that is looked at: files are as they were after it. */
  step: number | undefined;
  file: string | undefined;
}

/** The files that a session has changed between two of its steps, and how. */
export function Files({ sessionId, last, step, file }: Props) {
  const navigate = useNavigate();
  const [from, setFrom] = useState<number>();
  const query = { ...(from === undefined ? {} : { from_seq: from }), ...(step === undefined ? {} : { to_seq: step }) };
  const changes = $api.useQuery("get", "/api/sessions/{session_id}/files", {
    params: { path: { session_id: sessionId }, query },
  });
  const files = useMemo(() => onlyFiles(changes.data?.files ?? []), [changes.data]);
  const chosen = files.find((each) => each.encoded_path === file || each.path === file) ?? files[0];
  const go = (to: number | undefined, path: string | undefined) =>
    void navigate({
      to: "/sessions/$sessionId",
      params: { sessionId },
      search: { tab: "files", ...(to === undefined ? {} : { step: to }), ...(path === undefined ? {} : { file: path }) },
      replace: true,
      resetScroll: false,
    });
  return (
    <div className="grid gap-4">
      <Span sessionId={sessionId} last={last} from={from} to={step} onFrom={setFrom} onTo={(to) => go(to, file)} />
      {changes.error && <Problem error={changes.error} retry={() => void changes.refetch()} />}
      {changes.isPending && <SkeletonRows rows={4} className="h-9" />}
      {changes.data && files.length === 0 && (
        <Empty icon={FolderOpen} title="No files changed">
          Between these two steps the workspace stayed as it was.
        </Empty>
      )}
      {chosen && (
        <div className="grid items-start gap-4 lg:grid-cols-[18rem_minmax(0,1fr)]">
          <Card className="overflow-hidden">
            <p className="border-b border-line px-3 py-2 text-xs text-faint">
              {plural(files.length + (changes.data?.more_files ?? 0), "file")} changed
            </p>
            <ul className="max-h-[32dvh] overflow-y-auto p-1 lg:max-h-[60dvh]">
              {files.map((each) => (
                <li key={each.encoded_path}>
                  <FileButton change={each} chosen={each === chosen} onChoose={() => go(step, each.encoded_path)} />
                </li>
              ))}
            </ul>
            {!!changes.data?.more_files && <p className="border-t border-line px-3 py-2 text-xs text-soft">{plural(changes.data.more_files, "more file")} not listed</p>}
          </Card>
          <FileView key={`${chosen.encoded_path} ${from} ${step}`} sessionId={sessionId} change={chosen} from={from} to={step} />
        </div>
      )}
    </div>
  );
}

function FileButton({ change, chosen, onChoose }: { change: Change; chosen: boolean; onChoose: () => void }) {
  const { sign, word, ink } = SIGNS[change.kind];
  const size = change.size_after ?? change.size_before;
  return (
    <button
      type="button"
      aria-pressed={chosen}
      onClick={onChoose}
      title={change.path}
      className={clsx("flex min-h-9 w-full items-center gap-2 rounded-md px-2 py-1 text-left text-sm", chosen ? "bg-accent-soft" : "hover:bg-hover")}
    >
      <span className={clsx("grid size-5 shrink-0 place-items-center rounded-sm font-mono text-xs font-bold", ink)} aria-label={word} role="img">
        {sign}
      </span>
      <FileText size={14} className="shrink-0 text-faint" aria-hidden />
      <span className="min-w-0 flex-1 break-all">{change.path}</span>
      {size !== null && <span className="shrink-0 text-2xs tabular text-faint">{formatBytes(size)}</span>}
    </button>
  );
}

interface SpanProps {
  sessionId: string;
  last: number;
  from: number | undefined;
  to: number | undefined;
  onFrom: (seq: number | undefined) => void;
  onTo: (seq: number | undefined) => void;
}

/** Between which two moments: the start, a checkpoint, the step that is looked at, or now. */
function Span({ sessionId, last, from, to, onFrom, onTo }: SpanProps) {
  const { data } = $api.useInfiniteQuery(
    "get",
    "/api/sessions/{session_id}/checkpoints",
    { params: { path: { session_id: sessionId }, query: { limit: 200 } } },
    paged,
  );
  const checkpoints = itemsOf(data);
  const read = (text: string) => (text === "" ? undefined : Number(text));
  const known = to === undefined || checkpoints.some((each) => each.seq === to);
  return (
    <div className="grid gap-3 sm:grid-cols-2 lg:max-w-2xl">
      <SelectField label="From" value={from ?? ""} onChange={(event) => onFrom(read(event.target.value))}>
        <option value="">The start</option>
        {checkpoints.map((each) => (
          <option key={each.id} value={each.seq}>
            {nameOf(each)}
          </option>
        ))}
      </SelectField>
      <SelectField label="To" value={to ?? ""} onChange={(event) => onTo(read(event.target.value))}>
        <option value="">Now (step {last})</option>
        {!known && <option value={to}>Step {to}, which you look at</option>}
        {checkpoints.map((each) => (
          <option key={each.id} value={each.seq}>
            {nameOf(each)}
          </option>
        ))}
      </SelectField>
    </div>
  );
}

function nameOf(checkpoint: Schemas["CheckpointRead"]): string {
  return `Checkpoint “${checkpoint.name}”, step ${checkpoint.seq}${checkpoint.in_force ? "" : " (undone)"}`;
}
