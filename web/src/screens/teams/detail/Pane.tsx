import clsx from "clsx";
import { Plus } from "lucide-react";
import type { ReactNode } from "react";

import { Button } from "@/ui/Button";

export interface PaneItem {
  key: string;
  name: string;
  note?: ReactNode;
  icon?: ReactNode;
}

interface Props {
  label: string;
  items: PaneItem[];
  selected: string | undefined;
  onSelect: (key: string) => void;
  /** Adds one; without it nothing can be added. */
  onAdd?: (() => void) | undefined;
  addLabel: string;
  children: ReactNode;
}

/** A list on the left and the chosen one on the right; one above the other on a phone. */
export function Pane({ label, items, selected, onSelect, onAdd, addLabel, children }: Props) {
  return (
    <div className="grid items-start gap-5 lg:grid-cols-[15rem_minmax(0,1fr)]">
      <nav aria-label={label} className="grid gap-1">
        <ul className="flex gap-1 overflow-x-auto p-0.5 lg:grid">
          {items.map((item) => (
            <li key={item.key} className="shrink-0">
              <button
                type="button"
                aria-current={item.key === selected ? "true" : undefined}
                onClick={() => onSelect(item.key)}
                className={clsx(
                  "flex w-full items-start gap-2.5 rounded-md border px-3 py-2 text-left text-sm",
                  item.key === selected ? "border-line bg-surface font-semibold text-ink shadow-card" : "border-transparent text-soft hover:bg-hover hover:text-ink",
                )}
              >
                {item.icon}
                <span className="min-w-0">
                  <span className="block truncate">{item.name}</span>
                  {item.note && <span className="block text-xs font-normal text-soft max-lg:hidden">{item.note}</span>}
                </span>
              </button>
            </li>
          ))}
        </ul>
        {onAdd && (
          <Button look="quiet" icon={<Plus size={15} aria-hidden />} className="justify-self-start" onClick={onAdd}>
            {addLabel}
          </Button>
        )}
      </nav>
      <div className="min-w-0">{children}</div>
    </div>
  );
}
