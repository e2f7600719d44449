import clsx from "clsx";
import type { ReactNode } from "react";

/** A table that scrolls inside its own frame when the window is narrow. */
export function Table({ label, head, children }: { label: string; head: ReactNode[]; children: ReactNode }) {
  return (
    <div role="region" aria-label={label} tabIndex={0} className="overflow-x-auto rounded-lg border border-line bg-surface">
      <table className="w-full border-collapse text-sm">
        <thead>
          <tr className="border-b border-line text-left text-xs text-faint">
            {head.map((cell, index) => (
              <th key={index} scope="col" className="px-4 py-2.5 font-medium whitespace-nowrap">
                {cell}
              </th>
            ))}
          </tr>
        </thead>
        <tbody className="divide-y divide-line">{children}</tbody>
      </table>
    </div>
  );
}

export function Cell({ className, children, numeric }: { className?: string; children?: ReactNode; numeric?: boolean }) {
  return <td className={clsx("px-4 py-2.5 align-middle", numeric && "text-right tabular", className)}>{children}</td>;
}
