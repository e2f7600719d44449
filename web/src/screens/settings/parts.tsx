import type { ReactNode } from "react";

import { Button } from "@/ui/Button";
import { Confirm, Dialog } from "@/ui/Dialog";
import { Problem } from "@/ui/Problem";
import { SkeletonRows } from "@/ui/Skeleton";

import { useTask } from "./task";

interface Asked<T> {
  data: T | undefined;
  error: unknown;
  isPending: boolean;
  isError: boolean;
  refetch: () => unknown;
}

/** A list that is asked for: on its way, in trouble, empty, or there. */
export function Loaded<T>({ query, rows = 3, children }: { query: Asked<T>; rows?: number; children: (data: T) => ReactNode }) {
  if (query.isPending) return <SkeletonRows rows={rows} className="h-12" />;
  if (query.isError) return <Problem error={query.error} retry={() => void query.refetch()} />;
  return query.data === undefined ? null : children(query.data);
}

/** The lines of a list on a card. */
export function Lines({ children }: { children: ReactNode }) {
  return <ul className="-my-1 divide-y divide-line">{children}</ul>;
}

interface LineProps {
  title: ReactNode;
  note?: ReactNode;
  actions?: ReactNode;
  children?: ReactNode;
}

/** One thing of a list: its name, what is worth knowing about it, what can be done with it. */
export function Line({ title, note, actions, children }: LineProps) {
  return (
    <li className="grid gap-3 py-3">
      <div className="flex flex-wrap items-center gap-x-4 gap-y-2">
        <div className="min-w-44 flex-1">
          <div className="flex flex-wrap items-center gap-x-2 gap-y-1 text-sm font-medium break-words">{title}</div>
          {note && <div className="text-xs text-faint">{note}</div>}
        </div>
        {actions && <div className="flex flex-wrap items-center gap-1.5">{actions}</div>}
      </div>
      {children}
    </li>
  );
}

interface FormDialogProps {
  title: string;
  action: string;
  /** Sends it; what it throws is shown. The fields are read from the form and kept nowhere else. */
  onSend: (fields: FormData) => Promise<unknown>;
  onClose: () => void;
  /** Whether it closes by itself after it went well. */
  closes?: boolean;
  disabled?: boolean;
  wide?: boolean;
  children: ReactNode;
}

/** A form in a window. */
export function FormDialog({ title, action, onSend, onClose, closes = true, disabled, wide, children }: FormDialogProps) {
  const task = useTask();
  const send = async (fields: FormData) => {
    if ((await task.run(() => onSend(fields))) && closes) onClose();
  };
  return (
    <Dialog
      title={title}
      onClose={onClose}
      {...(wide ? { wide } : {})}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" form="settings-form" look="primary" busy={task.busy} disabled={disabled}>
            {action}
          </Button>
        </>
      }
    >
      <form
        id="settings-form"
        autoComplete="off"
        className="grid gap-4"
        onSubmit={(event) => {
          event.preventDefault();
          void send(new FormData(event.currentTarget));
        }}
      >
        {children}
        {task.error ? <Problem error={task.error} /> : null}
      </form>
    </Dialog>
  );
}

interface AskProps {
  title: string;
  action: string;
  children: ReactNode;
  onConfirm: () => Promise<unknown>;
  onClose: () => void;
  danger?: boolean;
}

/** Asks once more, does it, and shows what went wrong with it. */
export function Ask({ title, action, children, onConfirm, onClose, danger = true }: AskProps) {
  const task = useTask();
  return (
    <Confirm
      title={title}
      action={action}
      danger={danger}
      busy={task.busy}
      error={task.error}
      onConfirm={() => void task.run(onConfirm).then((well) => well && onClose())}
      onClose={onClose}
    >
      {children}
    </Confirm>
  );
}

/** A text of a form, without the space around it. */
export function textOf(fields: FormData, name: string): string {
  const value = fields.get(name);
  return typeof value === "string" ? value.trim() : "";
}
