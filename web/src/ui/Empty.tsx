import type { LucideIcon } from "lucide-react";
import type { ReactNode } from "react";

interface Props {
  icon: LucideIcon;
  title: string;
  /** What belongs here, and what to do to get it. */
  children?: ReactNode;
  action?: ReactNode;
}

/** A list that holds nothing yet, with the one thing to do about it. */
export function Empty({ icon: Icon, title, children, action }: Props) {
  return (
    <div className="grid justify-items-center gap-3 rounded-lg border border-dashed border-line px-6 py-14 text-center">
      <span className="grid size-11 place-items-center rounded-full bg-accent-soft text-accent-ink">
        <Icon size={20} aria-hidden />
      </span>
      <p className="text-lg font-semibold">{title}</p>
      {children && <div className="max-w-md text-sm text-soft">{children}</div>}
      {action}
    </div>
  );
}
