import { lazy, Suspense, useId } from "react";

import { useStored } from "@/lib/stored";
import { Choice } from "@/ui/Tabs";

const Markdown = lazy(() => import("@/ui/markdown/Markdown"));

type View = "write" | "both" | "read";

interface Props {
  label: string;
  value: string;
  onChange: (text: string) => void;
  error?: string | undefined;
  readOnly?: boolean;
  rows?: number;
}

/** Text in Markdown, with what it looks like beside it or in its place. */
export function MarkdownEditor({ label, value, onChange, error, readOnly = false, rows = 14 }: Props) {
  const id = useId();
  const [stored, setView] = useStored("markdown.view", "write");
  const view: View = stored === "both" || stored === "read" ? stored : "write";
  return (
    <div className="grid gap-1.5">
      <div className="flex flex-wrap items-center justify-between gap-2">
        {view === "read" ? (
          <p className="text-sm font-medium">{label}</p>
        ) : (
          <label htmlFor={id} className="text-sm font-medium">
            {label}
          </label>
        )}
        <Choice
          label={`${label}: show`}
          value={view}
          onChange={setView}
          options={[
            { value: "write", name: "Write" },
            { value: "both", name: "Side by side" },
            { value: "read", name: "Preview" },
          ]}
        />
      </div>
      <div className={view === "both" ? "grid gap-3 xl:grid-cols-2" : "grid"}>
        {view !== "read" && (
          <textarea
            id={id}
            rows={rows}
            value={value}
            readOnly={readOnly}
            placeholder="In Markdown"
            aria-invalid={error ? true : undefined}
            aria-describedby={error ? `${id}-note` : undefined}
            onChange={(event) => onChange(event.target.value)}
            className="w-full resize-y rounded-md border border-line-strong bg-surface px-3 py-2 font-mono text-sm text-ink placeholder:text-faint focus-visible:outline-offset-0 aria-invalid:border-bad"
          />
        )}
        {view !== "write" && (
          <div
            role="region"
            aria-label={`${label}: preview`}
            tabIndex={0}
            className="max-h-[36rem] min-h-40 overflow-auto rounded-md border border-line bg-page px-4 py-3 text-sm"
          >
            {value.trim() === "" ? (
              <p className="text-faint">Nothing yet.</p>
            ) : (
              <Suspense fallback={<pre className="whitespace-pre-wrap">{value}</pre>}>
                <Markdown text={value} />
              </Suspense>
            )}
          </div>
        )}
      </div>
      {error && (
        <p id={`${id}-note`} role="alert" className="text-xs text-bad">
          {error}
        </p>
      )}
    </div>
  );
}
