import type { ReactNode } from "react";

import { plural } from "@/lib/format";
import { CopyButton } from "@/ui/Copy";

// More than this makes a browser slow; the rest is a download away.
const MOST_SHOWN = 200_000;

interface Props {
  label: string;
  text: string;
  actions?: ReactNode;
  /** Grows with its text instead of scrolling early. */
  tall?: boolean;
}

/** Text as it is, in a frame that scrolls, with a button to copy all of it. */
export function Block({ label, text, actions, tall = false }: Props) {
  const hidden = text.length - MOST_SHOWN;
  return (
    <div className="overflow-hidden rounded-md border border-line bg-sunken">
      <div className="flex min-h-9 flex-wrap items-center justify-between gap-2 border-b border-line py-1 pr-1 pl-3">
        <span className="min-w-0 truncate text-xs font-medium text-soft">{label}</span>
        <span className="flex items-center gap-1">
          {actions}
          <CopyButton text={text} label={`Copy ${label.toLowerCase()}`} />
        </span>
      </div>
      <pre
        tabIndex={0}
        role="region"
        aria-label={label}
        className={`overflow-auto p-3 text-xs break-words whitespace-pre-wrap ${tall ? "max-h-[36rem]" : "max-h-80"}`}
      >
        {text === "" ? <span className="text-faint">Empty</span> : text.slice(0, MOST_SHOWN)}
      </pre>
      {hidden > 0 && <p className="border-t border-line px-3 py-2 text-xs text-soft">{plural(hidden, "more character")}: copy it to see all.</p>}
    </div>
  );
}

/** Any JSON, indented; a text as itself. */
export function JsonBlock({ label, value, tall }: { label: string; value: unknown; tall?: boolean }) {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return <Block label={label} text={text ?? ""} tall={tall ?? false} />;
}
