import clsx from "clsx";
import { type ReactNode, useId } from "react";

export function Card({ className, children }: { className?: string; children: ReactNode }) {
  return <div className={clsx("rounded-lg border border-line bg-surface shadow-card", className)}>{children}</div>;
}

interface SectionProps {
  title: string;
  /** One sentence below the title. */
  note?: ReactNode;
  actions?: ReactNode;
  className?: string;
  children: ReactNode;
}

/** A titled part of a page, on a card. */
export function Section({ title, note, actions, className, children }: SectionProps) {
  const id = useId();
  return (
    <section aria-labelledby={id} className={clsx("rounded-lg border border-line bg-surface shadow-card", className)}>
      <header className="flex min-h-12 flex-wrap items-center justify-between gap-x-4 gap-y-1 border-b border-line px-4 py-2.5">
        <div>
          <h2 id={id} className="text-base font-semibold">
            {title}
          </h2>
          {note && <p className="text-xs text-faint">{note}</p>}
        </div>
        {actions && <div className="flex flex-wrap items-center gap-2">{actions}</div>}
      </header>
      <div className="p-4">{children}</div>
    </section>
  );
}

/** A figure with its name. */
export function Figure({ name, value, note }: { name: string; value: ReactNode; note?: ReactNode }) {
  return (
    <div className="grid content-start gap-0.5">
      <dt className="text-xs text-faint">{name}</dt>
      <dd className="text-xl font-semibold tabular">{value}</dd>
      {note && <dd className="text-xs text-soft">{note}</dd>}
    </div>
  );
}
