import clsx from "clsx";
import {
  type InputHTMLAttributes,
  type ReactNode,
  type SelectHTMLAttributes,
  type TextareaHTMLAttributes,
  useId,
} from "react";

const BOX = clsx(
  "w-full rounded-md border border-line-strong bg-surface px-3 text-base text-ink placeholder:text-faint",
  "focus-visible:outline-2 focus-visible:outline-offset-0 disabled:opacity-60 aria-invalid:border-bad",
);

interface FieldProps {
  label: string;
  hint?: ReactNode;
  error?: string | undefined;
  /** Keeps the label for screen readers only. */
  hideLabel?: boolean;
  className?: string;
}

interface Wiring {
  id: string;
  "aria-describedby": string | undefined;
  "aria-invalid": true | undefined;
}

/** A label, what belongs to it, a hint and what is wrong with it, tied together. */
export function Field({
  label,
  hint,
  error,
  hideLabel,
  className,
  children,
}: FieldProps & { children: (wiring: Wiring) => ReactNode }) {
  const id = useId();
  const note = hint || error ? `${id}-note` : undefined;
  return (
    <div className={clsx("grid content-start gap-1.5", className)}>
      <label htmlFor={id} className={hideLabel ? "sr-only" : "text-sm font-medium text-ink"}>
        {label}
      </label>
      {children({ id, "aria-describedby": note, "aria-invalid": error ? true : undefined })}
      {note && (
        <p id={note} className={clsx("text-xs", error ? "text-bad" : "text-faint")} role={error ? "alert" : undefined}>
          {error ?? hint}
        </p>
      )}
    </div>
  );
}

function fieldOf<P extends FieldProps>(props: P) {
  const { label, hint, error, hideLabel, className, ...rest } = props;
  return { field: { label, hint, error, hideLabel, className }, rest };
}

export function TextField(props: FieldProps & InputHTMLAttributes<HTMLInputElement>) {
  const { field, rest } = fieldOf(props);
  return <Field {...field}>{(wiring) => <input {...rest} {...wiring} className={clsx(BOX, "h-9")} />}</Field>;
}

export function TextArea(props: FieldProps & TextareaHTMLAttributes<HTMLTextAreaElement> & { mono?: boolean }) {
  const { mono, ...others } = props;
  const { field, rest } = fieldOf(others);
  return (
    <Field {...field}>
      {(wiring) => (
        <textarea {...rest} {...wiring} className={clsx(BOX, "min-h-20 py-2", mono && "font-mono text-sm")} />
      )}
    </Field>
  );
}

export function SelectField({
  children,
  ...props
}: FieldProps & SelectHTMLAttributes<HTMLSelectElement> & { children: ReactNode }) {
  const { field, rest } = fieldOf(props);
  return (
    <Field {...field}>
      {(wiring) => (
        <select {...rest} {...wiring} className={clsx(BOX, "h-9 pr-8")}>
          {children}
        </select>
      )}
    </Field>
  );
}

interface CheckProps extends InputHTMLAttributes<HTMLInputElement> {
  label: ReactNode;
  hint?: ReactNode;
}

export function Checkbox({ label, hint, className, ...rest }: CheckProps) {
  const id = useId();
  return (
    <div className={clsx("flex items-start gap-2.5", className)}>
      <input id={id} type="checkbox" {...rest} aria-describedby={hint ? `${id}-hint` : undefined} className="mt-0.5 size-4.5 shrink-0 accent-accent" />
      <div>
        <label htmlFor={id} className="text-sm font-medium">
          {label}
        </label>
        {hint && (
          <p id={`${id}-hint`} className="text-xs text-faint">
            {hint}
          </p>
        )}
      </div>
    </div>
  );
}
