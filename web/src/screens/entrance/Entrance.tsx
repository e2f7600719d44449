import { type ReactNode, useEffect } from "react";

import { Logo } from "@/shell/Shell";

/** The frame of the screens that need no sign-in. */
export function Entrance({ title, note, children }: { title: string; note?: ReactNode; children: ReactNode }) {
  useEffect(() => {
    document.title = `${title} · AgentOS`;
  }, [title]);
  return (
    <main className="grid min-h-full content-center justify-items-center gap-8 px-4 py-10">
      <div className="flex items-center gap-3">
        <Logo size={36} />
        <span className="text-2xl font-semibold tracking-tight">AgentOS</span>
      </div>
      <div className="grid w-full max-w-sm gap-5 rounded-xl border border-line bg-surface p-6 shadow-float">
        <header className="grid gap-1">
          <h1 className="text-xl font-semibold">{title}</h1>
          {note && <p className="text-sm text-soft">{note}</p>}
        </header>
        {children}
      </div>
    </main>
  );
}
