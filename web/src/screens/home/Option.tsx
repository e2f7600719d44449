import clsx from "clsx";
import { type ReactNode, useId } from "react";

interface Props {
  /** Options of one name exclude each other. */
  name: string;
  title: string;
  note: ReactNode;
  checked: boolean;
  disabled?: boolean;
  onChoose: () => void;
}

/** One way of several, with what it means. */
export function Option({ name, title, note, checked, disabled = false, onChoose }: Props) {
  const id = useId();
  return (
    <label
      htmlFor={id}
      className={clsx(
        "flex items-start gap-3 rounded-lg border p-3.5",
        disabled ? "cursor-default border-line bg-sunken" : "cursor-pointer hover:bg-hover",
        checked ? "border-accent bg-accent-soft" : "border-line",
      )}
    >
      <input id={id} type="radio" name={name} checked={checked} disabled={disabled} onChange={onChoose} className="mt-1 size-4.5 shrink-0 accent-accent" />
      <span className="grid gap-0.5">
        <span className="text-sm font-semibold">{title}</span>
        <span className="text-sm text-soft">{note}</span>
      </span>
    </label>
  );
}
