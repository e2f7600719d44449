import { Link, type LinkProps } from "@tanstack/react-router";
import clsx from "clsx";
import type { ReactNode } from "react";

export interface Tab {
  name: ReactNode;
  link: LinkProps;
  active: boolean;
}

/** Parts of one page, each with an address of its own. */
export function Tabs({ label, tabs }: { label: string; tabs: Tab[] }) {
  return (
    <nav aria-label={label} className="-mb-px flex gap-1 overflow-x-auto border-b border-line">
      {tabs.map((tab, index) => (
        <Link
          key={index}
          // Else the router also marks tabs whose search is a part of the address's.
          activeOptions={{ exact: true }}
          {...tab.link}
          aria-current={tab.active ? "page" : undefined}
          className={clsx(
            "border-b-2 px-3 py-2 text-sm font-medium whitespace-nowrap",
            tab.active ? "border-accent text-ink" : "border-transparent text-soft hover:text-ink",
          )}
        >
          {tab.name}
        </Link>
      ))}
    </nav>
  );
}

interface ChoiceProps<T extends string> {
  label: string;
  options: { value: T; name: ReactNode }[];
  value: T;
  onChange: (value: T) => void;
}

/** One of a few, all in sight. */
export function Choice<T extends string>({ label, options, value, onChange }: ChoiceProps<T>) {
  return (
    <div role="group" aria-label={label} className="inline-flex gap-0.5 rounded-md bg-hover p-0.5">
      {options.map((option) => (
        <button
          key={option.value}
          type="button"
          aria-pressed={option.value === value}
          onClick={() => onChange(option.value)}
          className={clsx(
            "h-7 rounded-sm px-2.5 text-xs font-medium",
            option.value === value ? "bg-surface text-ink shadow-card" : "text-soft hover:text-ink",
          )}
        >
          {option.name}
        </button>
      ))}
    </div>
  );
}
