import { Link, type LinkProps } from "@tanstack/react-router";
import clsx from "clsx";
import type { ButtonHTMLAttributes, ReactNode } from "react";

import { Spinner } from "./Spinner";

type Look = "primary" | "plain" | "quiet" | "danger";
type Size = "small" | "normal";

const LOOKS: Record<Look, string> = {
  primary: "bg-accent text-on-accent hover:bg-accent-hover border-transparent shadow-card",
  plain: "bg-raised text-ink hover:bg-hover border-line shadow-card",
  quiet: "bg-transparent text-soft hover:bg-hover hover:text-ink border-transparent",
  danger: "bg-bad-solid text-on-accent hover:brightness-110 border-transparent shadow-card",
};
const SIZES: Record<Size, string> = {
  small: "h-7 px-2.5 text-xs gap-1.5",
  normal: "h-9 px-3.5 text-sm gap-2",
};

/** The classes of a button, for what is not a `<button>`, such as a link to a file. */
export function buttonClass(look: Look = "plain", size: Size = "normal", extra?: string): string {
  return clsx(
    "inline-flex shrink-0 items-center justify-center rounded-md border font-medium whitespace-nowrap",
    "transition-colors disabled:opacity-55 aria-disabled:opacity-55",
    LOOKS[look],
    SIZES[size],
    extra,
  );
}

interface Props extends ButtonHTMLAttributes<HTMLButtonElement> {
  look?: Look;
  size?: Size;
  /** Works on it: cannot be pressed again, and says so. */
  busy?: boolean;
  icon?: ReactNode;
}

export function Button({ look, size, busy = false, icon, children, className, disabled, ...rest }: Props) {
  return (
    <button
      type="button"
      className={buttonClass(look, size, className)}
      disabled={disabled || busy}
      aria-busy={busy || undefined}
      {...rest}
    >
      {busy ? <Spinner /> : icon}
      {children}
    </button>
  );
}

interface IconProps extends Omit<ButtonHTMLAttributes<HTMLButtonElement>, "aria-label"> {
  /** What it does, for those who do not see the icon, and as its tooltip. */
  label: string;
  size?: Size;
  look?: Look;
}

export function IconButton({ label, look = "quiet", size = "normal", className, children, ...rest }: IconProps) {
  const side = size === "small" ? "w-7 !px-0" : "w-9 !px-0";
  return (
    <button type="button" aria-label={label} title={label} className={buttonClass(look, size, clsx(side, className))} {...rest}>
      {children}
    </button>
  );
}

/** A link within the dashboard that looks like a button. */
export function LinkButton({
  look,
  size,
  icon,
  children,
  className,
  ...link
}: LinkProps & { look?: Look; size?: Size; icon?: ReactNode; children: ReactNode; className?: string }) {
  return (
    <Link {...link} className={buttonClass(look, size, className)}>
      {icon}
      {children}
    </Link>
  );
}
