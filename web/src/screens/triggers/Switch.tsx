import clsx from "clsx";

interface Props {
  /** What is on or off, for those who do not see where the switch stands. */
  label: string;
  on: boolean;
  busy?: boolean;
  disabled?: boolean;
  onChange: (on: boolean) => void;
}

/** On or off, at once. */
export function Switch({ label, on, busy = false, disabled = false, onChange }: Props) {
  return (
    <button
      type="button"
      role="switch"
      aria-checked={on}
      aria-label={label}
      title={label}
      aria-busy={busy || undefined}
      disabled={disabled || busy}
      onClick={() => onChange(!on)}
      className={clsx(
        "relative inline-flex h-6 w-10 shrink-0 items-center rounded-full border transition-colors disabled:opacity-55",
        on ? "border-transparent bg-accent" : "border-line-strong bg-sunken",
      )}
    >
      <span
        aria-hidden
        className={clsx("size-4 rounded-full shadow-card transition-transform", on ? "translate-x-4.5 bg-on-accent" : "translate-x-1 bg-line-strong")}
      />
    </button>
  );
}
