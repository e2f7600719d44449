import { CircleAlert } from "lucide-react";

import { problemOf } from "@/api/problem";

import { Button } from "./Button";

/** What went wrong and how to go on. */
export function Problem({ error, retry }: { error: unknown; retry?: (() => void) | undefined }) {
  const problem = problemOf(error);
  return (
    <div role="alert" className="flex items-start gap-3 rounded-lg border border-line bg-bad-soft p-3.5 text-sm">
      <CircleAlert size={18} className="mt-0.5 shrink-0 text-bad" aria-hidden />
      <div className="grid min-w-0 flex-1 gap-1">
        <p className="font-medium break-words text-ink">{problem.message}</p>
        {problem.hint && <p className="text-soft">{problem.hint}</p>}
        {problem.requestId && problem.status >= 500 && (
          <p className="text-xs text-soft">
            Request <code className="select-all">{problem.requestId}</code>
          </p>
        )}
      </div>
      {retry && (
        <Button size="small" onClick={retry}>
          Try again
        </Button>
      )}
    </div>
  );
}
