import clsx from "clsx";
import { CircleAlert, CircleCheck, X } from "lucide-react";
import { useEffect, useSyncExternalStore } from "react";

import { problemOf } from "@/api/problem";

import { IconButton } from "./Button";

interface Toast {
  id: number;
  tone: "good" | "bad";
  text: string;
  hint: string | undefined;
}

let toasts: Toast[] = [];
let count = 0;
const listeners = new Set<() => void>();

function change(next: Toast[]): void {
  toasts = next;
  listeners.forEach((listener) => listener());
}

function show(tone: Toast["tone"], text: string, hint?: string): void {
  count += 1;
  change([...toasts.slice(-3), { id: count, tone, text, hint }]);
}

/** Says that something is done, where it would not be seen otherwise. */
export function tell(text: string): void {
  show("good", text);
}

/** Says what went wrong and how to go on. */
export function tellProblem(error: unknown): void {
  const problem = problemOf(error);
  show("bad", problem.message, problem.hint);
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function Toasts() {
  const shown = useSyncExternalStore(subscribe, () => toasts);
  return (
    <div role="status" aria-live="polite" className="pointer-events-none fixed inset-x-4 bottom-4 z-50 grid justify-items-end gap-2 max-md:bottom-20">
      {shown.map((toast) => (
        <ToastCard key={toast.id} toast={toast} />
      ))}
    </div>
  );
}

function ToastCard({ toast }: { toast: Toast }) {
  const close = () => change(toasts.filter((each) => each.id !== toast.id));
  useEffect(() => {
    // Problems stay until they are read.
    if (toast.tone === "bad") return;
    const timer = setTimeout(() => change(toasts.filter((each) => each.id !== toast.id)), 5000);
    return () => clearTimeout(timer);
  }, [toast]);
  const Icon = toast.tone === "good" ? CircleCheck : CircleAlert;
  return (
    <div className="pointer-events-auto flex w-full max-w-sm animate-appear items-start gap-3 rounded-lg border border-line bg-raised p-3 shadow-float">
      <Icon size={18} aria-hidden className={clsx("mt-0.5 shrink-0", toast.tone === "good" ? "text-good" : "text-bad")} />
      <div className="min-w-0 flex-1 text-sm">
        <p className="font-medium break-words">{toast.text}</p>
        {toast.hint && <p className="text-soft">{toast.hint}</p>}
      </div>
      <IconButton label="Dismiss" size="small" onClick={close}>
        <X size={14} />
      </IconButton>
    </div>
  );
}
