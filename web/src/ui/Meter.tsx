import clsx from "clsx";

interface Props {
  /** What is measured, for screen readers. */
  label: string;
  value: number;
  max: number;
  /** From this share on it warns. */
  warnAt?: number;
}

/** How much of something is used up; it warns at 80 % and says so by more than colour. */
export function Meter({ label, value, max, warnAt = 0.8 }: Props) {
  const share = max > 0 ? Math.min(value / max, 1) : 0;
  const tone = share >= 1 ? "bg-bad" : share >= warnAt ? "bg-warn" : "bg-accent";
  return (
    <div
      role="meter"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={Math.round(share * 100)}
      className="h-2 overflow-hidden rounded-full bg-hover"
    >
      <div className={clsx("h-full rounded-full transition-[width]", tone)} style={{ width: `${share * 100}%` }} />
    </div>
  );
}
