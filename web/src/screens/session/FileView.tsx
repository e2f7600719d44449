import { useQuery } from "@tanstack/react-query";
import { Download } from "lucide-react";
import { useMemo, useState } from "react";

import { fetchApi } from "@/api/client";
import { problemOf } from "@/api/problem";
import type { Schemas } from "@/api/types";
import { serverUrl } from "@/lib/base";
import { formatBytes } from "@/lib/format";
import { buttonClass } from "@/ui/Button";
import { Problem } from "@/ui/Problem";
import { Skeleton } from "@/ui/Skeleton";
import { Choice } from "@/ui/Tabs";

import { Block } from "./Block";
import { parseDiff } from "./diff";
import { DiffView } from "./DiffView";

// Beyond this a file is downloaded instead of shown.
const MOST_SHOWN = 1_000_000;
// The server compares nothing larger.
const MOST_COMPARED = 256 * 1024;
// How much of a file is looked at to see whether it is text.
const SNIFFED = 8_000;

interface Props {
  sessionId: string;
  change: Schemas["FileChange"];
  from: number | undefined;
  to: number | undefined;
}

/** One changed file: how it changed, what is in it, and a way to keep it. */
export function FileView({ sessionId, change, from, to }: Props) {
  const removed = change.kind === "removed";
  const [view, setView] = useState<"diff" | "content">("diff");
  return (
    <section aria-label={change.path} className="grid min-w-0 gap-3">
      <header className="flex flex-wrap items-center justify-between gap-2">
        <h2 className="min-w-0 font-mono text-sm font-semibold break-all">{change.path}</h2>
        <div className="flex flex-wrap items-center gap-2">
          {!removed && (
            <Choice
              label="How to show it"
              value={view}
              onChange={setView}
              options={[
                { value: "diff", name: "Changes" },
                { value: "content", name: "Content" },
              ]}
            />
          )}
          {!removed && (
            <a href={contentUrl(sessionId, change.encoded_path, to)} download className={buttonClass("plain", "small")}>
              <Download size={14} aria-hidden /> Download
            </a>
          )}
        </div>
      </header>
      {view === "diff" ? <Diff sessionId={sessionId} change={change} from={from} to={to} /> : <Content sessionId={sessionId} change={change} to={to} />}
    </section>
  );
}

/** The path is put in as the API gave it: names need not be UTF-8. */
function contentUrl(sessionId: string, encodedPath: string, seq: number | undefined): string {
  return serverUrl(`/api/sessions/${sessionId}/files/content?path=${encodedPath}${seq ? `&seq=${seq}` : ""}`);
}

// Not an error, but a kind of file that is not compared.
const NOT_COMPARED: Record<string, string> = {
  not_text: "This is not a text file.",
  file_too_large: "This file is too large to be compared line by line.",
};

function Diff({ sessionId, change, from, to }: Props) {
  const large = Math.max(change.size_before ?? 0, change.size_after ?? 0) > MOST_COMPARED;
  const asked = `path=${change.encoded_path}${from === undefined ? "" : `&from_seq=${from}`}${to === undefined ? "" : `&to_seq=${to}`}`;
  const diff = useQuery({
    // Named like all calls to the API, so that events find it.
    queryKey: ["get", "/api/sessions/{session_id}/files/diff", { params: { path: { session_id: sessionId } } }, asked],
    queryFn: async ({ signal }) => {
      const response = await fetchApi(new Request(serverUrl(`/api/sessions/${sessionId}/files/diff?${asked}`), { signal }));
      return (await response.json()) as Schemas["FileDiff"];
    },
    enabled: !large,
    staleTime: to === undefined ? 60_000 : "static",
  });
  const hunks = useMemo(() => parseDiff(diff.data?.diff ?? ""), [diff.data]);
  if (large) return <NotShown reason={NOT_COMPARED.file_too_large!} change={change} />;
  if (diff.error) {
    const reason = NOT_COMPARED[problemOf(diff.error).code];
    return reason ? <NotShown reason={reason} change={change} /> : <Problem error={diff.error} retry={() => void diff.refetch()} />;
  }
  if (!diff.data) return <Skeleton className="h-64" />;
  if (hunks.length === 0) return <p className="text-sm text-soft">The file has the same lines at both moments.</p>;
  return <DiffView hunks={hunks} label={`Changes of ${change.path}`} />;
}

function Content({ sessionId, change, to }: Omit<Props, "from">) {
  const large = (change.size_after ?? 0) > MOST_SHOWN;
  const text = useQuery({
    queryKey: ["get", "/api/sessions/{session_id}/files/content", { params: { path: { session_id: sessionId } } }, change.encoded_path, to],
    queryFn: async ({ signal }) => {
      const response = await fetchApi(new Request(contentUrl(sessionId, change.encoded_path, to), { signal }));
      return textOf(await response.arrayBuffer());
    },
    enabled: !large,
    staleTime: to === undefined ? 60_000 : "static",
  });
  if (large) return <NotShown reason="This file is too large to be shown here." change={change} />;
  if (text.error) return <Problem error={text.error} retry={() => void text.refetch()} />;
  if (text.data === undefined) return <Skeleton className="h-64" />;
  if (text.data === null) return <NotShown reason="This is not a text file." change={change} />;
  return <Block label="Content" text={text.data} tall />;
}

/** The text in some bytes; null if they are something else. */
function textOf(bytes: ArrayBuffer): string | null {
  if (new Uint8Array(bytes, 0, Math.min(bytes.byteLength, SNIFFED)).includes(0)) return null;
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return null;
  }
}

function NotShown({ reason, change }: { reason: string; change: Props["change"] }) {
  const size = (bytes: number | null) => (bytes === null ? "not there" : formatBytes(bytes));
  return (
    <div className="grid gap-1 rounded-lg border border-dashed border-line p-6 text-center text-sm">
      <p className="font-medium">{reason}</p>
      <p className="text-soft">
        Before: {size(change.size_before)}, after: {size(change.size_after)}.
        {change.kind !== "removed" && " You can download it."}
      </p>
    </div>
  );
}
