import clsx from "clsx";
import type { ReactNode } from "react";

export type Tone = "good" | "warn" | "bad" | "info" | "calm" | "accent";

const TONES: Record<Tone, string> = {
  good: "bg-good-soft text-good",
  warn: "bg-warn-soft text-warn",
  bad: "bg-bad-soft text-bad",
  info: "bg-info-soft text-info",
  calm: "bg-calm-soft text-calm",
  accent: "bg-accent-soft text-accent-ink",
};

interface Props {
  tone?: Tone;
  /** Something is going on: the dot breathes. */
  alive?: boolean;
  dot?: boolean;
  title?: string;
  children: ReactNode;
}

export function Badge({ tone = "calm", alive = false, dot = false, title, children }: Props) {
  return (
    <span
      title={title}
      className={clsx(
        "inline-flex h-5.5 items-center gap-1.5 rounded-full px-2 text-xs font-medium whitespace-nowrap",
        TONES[tone],
      )}
    >
      {(dot || alive) && (
        <span aria-hidden className={clsx("size-1.5 rounded-full bg-current", alive && "animate-pulse-slow")} />
      )}
      {children}
    </span>
  );
}
