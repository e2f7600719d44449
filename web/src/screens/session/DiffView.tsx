import clsx from "clsx";

import { countLines, type Hunk, type Line } from "./diff";

const LOOKS: Record<Line["kind"], { row: string; sign: string; word: string }> = {
  added: { row: "bg-good-soft text-good", sign: "+", word: "added" },
  removed: { row: "bg-bad-soft text-bad", sign: "−", word: "removed" },
  same: { row: "", sign: " ", word: "" },
  note: { row: "text-faint italic", sign: " ", word: "" },
};

/** How a file changed, line by line; each change has its sign and its colour. */
export function DiffView({ hunks, label }: { hunks: Hunk[]; label: string }) {
  const { added, removed } = countLines(hunks);
  return (
    <div className="grid gap-2">
      <p className="text-xs tabular">
        <span className="font-medium text-good">+{added} added</span>
        <span className="ml-3 font-medium text-bad">−{removed} removed</span>
      </p>
      <div role="region" aria-label={label} tabIndex={0} className="max-h-[70dvh] overflow-auto rounded-md border border-line bg-surface">
        <table className="w-full border-collapse font-mono text-xs leading-5">
          <caption className="sr-only">{label}</caption>
          {hunks.map((hunk) => (
            <tbody key={hunk.head}>
              <tr className="bg-sunken text-faint">
                <td colSpan={4} className="px-3 py-1">
                  {hunk.head}
                </td>
              </tr>
              {hunk.lines.map((line, index) => (
                <Row key={index} line={line} />
              ))}
            </tbody>
          ))}
        </table>
      </div>
    </div>
  );
}

function Row({ line }: { line: Line }) {
  const look = LOOKS[line.kind];
  const number = "w-px min-w-8 px-2 text-right align-top text-2xs select-none tabular";
  return (
    <tr className={look.row}>
      <td className={clsx(number, !look.word && "text-faint")}>{line.before}</td>
      <td className={clsx(number, !look.word && "text-faint")}>{line.after}</td>
      <td className="w-px px-1 text-center align-top select-none">
        <span aria-hidden>{look.sign}</span>
        {look.word && <span className="sr-only">{look.word}</span>}
      </td>
      <td className="pr-3 break-words whitespace-pre-wrap">{line.text}</td>
    </tr>
  );
}
