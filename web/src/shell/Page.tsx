import { Link, type LinkProps } from "@tanstack/react-router";
import clsx from "clsx";
import { ChevronRight } from "lucide-react";
import { type ReactNode, useEffect } from "react";

interface Props {
  title: string;
  /** What is shown in place of the title's words, e.g. with a badge; the title stays its name. */
  heading?: ReactNode;
  /** The way here, for things that lie below a list. */
  crumbs?: { name: string; link: LinkProps }[];
  note?: ReactNode;
  actions?: ReactNode;
  /** Takes the whole width, for tables and boards. */
  wide?: boolean;
  children: ReactNode;
}

/** A screen: its title in the window and as its only h1, what can be done, and its content. */
export function Page({ title, heading, crumbs, note, actions, wide = false, children }: Props) {
  useEffect(() => {
    document.title = `${title} · AgentOS`;
  }, [title]);
  return (
    <div className={clsx("mx-auto grid w-full content-start gap-5 px-4 py-5 md:px-8 md:py-7", wide ? "max-w-[1400px]" : "max-w-5xl")}>
      <header className="flex flex-wrap items-start justify-between gap-x-6 gap-y-3">
        <div className="grid min-w-0 gap-1">
          {crumbs && (
            <nav aria-label="Breadcrumb" className="flex items-center gap-1 text-xs text-faint">
              {crumbs.map((crumb) => (
                <span key={crumb.name} className="flex items-center gap-1">
                  <Link {...crumb.link} className="rounded-sm py-1 hover:text-ink hover:underline">
                    {crumb.name}
                  </Link>
                  <ChevronRight size={12} aria-hidden />
                </span>
              ))}
            </nav>
          )}
          <h1 className="flex min-w-0 flex-wrap items-center gap-3 text-2xl font-semibold tracking-tight break-words">{heading ?? title}</h1>
          {note && <div className="text-sm text-soft">{note}</div>}
        </div>
        {actions && <div className="flex flex-wrap items-center gap-2">{actions}</div>}
      </header>
      {children}
    </div>
  );
}
