import { Link } from "@tanstack/react-router";
import { FileText, Sparkles } from "lucide-react";

import type { Schemas } from "@/api/types";
import { formatBytes, plural } from "@/lib/format";
import { Section } from "@/ui/Card";
import { CopyButton } from "@/ui/Copy";
import { Empty } from "@/ui/Empty";

import { hasEnded } from "./actions";
import { JsonBlock } from "./Block";
import { onlyFiles } from "./onlyFiles";
import { Rich } from "./Rich";

const MOST_FILES = 50;

/** What a session has come to: its text, its output, its files. */
export function Result({ session }: { session: Schemas["SessionDetails"] }) {
  const { result } = session;
  if (result === null) {
    return (
      <Empty icon={Sparkles} title="No result yet">
        {hasEnded(session) ? "It ended without one. The timeline shows how far it came." : "The result is here when the session is complete."}
      </Empty>
    );
  }
  const files = onlyFiles(result.files);
  const hasOutput = result.output !== null && result.output !== undefined;
  return (
    <div className="grid items-start gap-5 lg:grid-cols-[minmax(0,1fr)_20rem]">
      <div className="grid min-w-0 gap-5">
        {hasOutput && (
          <Section title="Output" note="The value that satisfies the output schema.">
            <JsonBlock label="Output" value={result.output} tall />
          </Section>
        )}
        {(!hasOutput || result.text) && (
          <Section title="Answer" actions={<CopyButton text={result.text} label="Copy answer" />}>
            {result.text ? <Rich text={result.text} /> : <p className="text-sm text-soft">It said nothing.</p>}
          </Section>
        )}
      </div>
      <Section title="Files" note={`${plural(files.length + (result.more_files ?? 0), "file")} changed`}>
        {files.length === 0 ? (
          <p className="text-sm text-soft">The workspace stayed as it was.</p>
        ) : (
          <ul className="grid gap-1">
            {files.slice(0, MOST_FILES).map((file) => (
              <li key={file.path}>
                <Link
                  to="/sessions/$sessionId"
                  params={{ sessionId: session.id }}
                  search={{ tab: "files", file: file.path }}
                  className="flex min-h-8 items-center gap-2 rounded-md px-1.5 text-sm hover:bg-hover"
                >
                  <FileText size={14} className="shrink-0 text-faint" aria-hidden />
                  <span className="min-w-0 flex-1 break-all">{file.path}</span>
                  <span className="shrink-0 text-2xs tabular text-faint">
                    {file.kind}
                    {file.size_after !== null && `, ${formatBytes(file.size_after)}`}
                  </span>
                </Link>
              </li>
            ))}
          </ul>
        )}
        {files.length > MOST_FILES && <p className="pt-2 text-xs text-soft">The others are under Files.</p>}
      </Section>
    </div>
  );
}
