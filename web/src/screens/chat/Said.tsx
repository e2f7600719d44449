import clsx from "clsx";
import { useMemo, useState } from "react";

import { splitBlocks } from "@/ui/markdown/blocks";
import { CodeBlock } from "@/ui/markdown/CodeBlock";

/** What is longer is folded, so that a pasted log does not hide the conversation. */
const MOST_LENGTH = 2_000;
const MOST_LINES = 24;

/** What somebody wrote, letter by letter; only code is told apart. */
export function Said({ text, faded = false }: { text: string; faded?: boolean }) {
  const [all, setAll] = useState(false);
  const blocks = useMemo(() => (/^ {0,3}(?:```|~~~)/m.test(text) ? splitBlocks(text).blocks : undefined), [text]);
  const long = text.length > MOST_LENGTH || text.split("\n").length > MOST_LINES;
  return (
    <div className={clsx("grid max-w-full min-w-0 gap-2 rounded-xl rounded-br-sm bg-accent-soft px-4 py-2.5", faded && "text-soft")}>
      <div className={clsx("grid min-w-0 gap-2", long && !all && "max-h-64 overflow-hidden [mask-image:linear-gradient(black_75%,transparent)]")}>
        {blocks === undefined ? (
          <p className="break-words whitespace-pre-wrap">{text}</p>
        ) : (
          blocks.map((block) =>
            block.code ? (
              <CodeBlock key={block.start} code={block.code.body} language={block.code.language} />
            ) : (
              <p key={block.start} className="break-words whitespace-pre-wrap">
                {block.text.trim()}
              </p>
            ),
          )
        )}
      </div>
      {long && (
        <button type="button" aria-expanded={all} onClick={() => setAll(!all)} className="min-h-6 justify-self-start rounded-sm text-xs font-medium text-accent-ink hover:underline">
          {all ? "Show less" : "Show all"}
        </button>
      )}
    </div>
  );
}
