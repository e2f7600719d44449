import { Link } from "@tanstack/react-router";
import { Check } from "lucide-react";
import clsx from "clsx";

const NAMES = ["Template", "The team", "Look over"];

interface Props {
  step: number;
  /** There is something to go on with. */
  ready: boolean;
  template: string | undefined;
}

/** Where one is in the builder, and the way to its other steps. */
export function Steps({ step, ready, template }: Props) {
  return (
    <nav aria-label="Steps">
      <ol className="-ml-2 flex flex-wrap items-center gap-x-2 gap-y-1 max-sm:-ml-1.5 max-sm:gap-x-0">
        {NAMES.map((name, index) => {
          const number = index + 1;
          const look = clsx(
            "flex min-h-8 items-center gap-2 rounded-md px-2 text-sm max-sm:gap-1.5 max-sm:px-1.5",
            number === step ? "font-semibold text-ink" : "text-soft",
            ready && "hover:bg-hover",
          );
          const words = (
            <>
              <span aria-hidden className={clsx("grid size-6 place-items-center rounded-full text-xs font-semibold", number <= step ? "bg-accent text-on-accent" : "bg-hover text-soft")}>
                {number < step ? <Check size={13} /> : number}
              </span>
              {name}
            </>
          );
          return (
            <li key={name} className="flex items-center gap-2">
              {index > 0 && <span aria-hidden className="h-px w-6 bg-line-strong/60 max-sm:hidden" />}
              {ready ? (
                <Link to="/teams/new" search={{ step: number, template }} aria-current={number === step ? "step" : undefined} className={look}>
                  {words}
                </Link>
              ) : (
                <span aria-current={number === step ? "step" : undefined} className={look}>
                  {words}
                </span>
              )}
            </li>
          );
        })}
      </ol>
    </nav>
  );
}
