import { useEffect, useState } from "react";

import { formatMoment, formatRelative } from "@/lib/format";

const listeners = new Set<() => void>();
let clock: ReturnType<typeof setInterval> | undefined;

/** The time now, renewed with all others at once, a few times a minute. */
export function useNow(): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const tick = () => setNow(Date.now());
    listeners.add(tick);
    clock ??= setInterval(() => listeners.forEach((each) => each()), 15_000);
    return () => {
      listeners.delete(tick);
      if (listeners.size === 0) {
        clearInterval(clock);
        clock = undefined;
      }
    };
  }, []);
  return now;
}

/** "3 minutes ago", with the exact moment on asking. */
export function Time({ at, className }: { at: string; className?: string }) {
  const now = useNow();
  return (
    <time dateTime={at} title={formatMoment(at)} className={className}>
      {formatRelative(at, now)}
    </time>
  );
}
