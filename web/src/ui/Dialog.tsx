import clsx from "clsx";
import { X } from "lucide-react";
import { type ReactNode, useEffect, useId, useRef } from "react";

import { problemOf } from "@/api/problem";

import { Button, IconButton } from "./Button";
import { Problem } from "./Problem";

interface Props {
  title: string;
  onClose: () => void;
  children: ReactNode;
  /** The buttons at its foot. */
  footer?: ReactNode;
  wide?: boolean;
}

/** A window above the page. The browser keeps focus inside and closes it with Escape. */
export function Dialog({ title, onClose, children, footer, wide = false }: Props) {
  const ref = useRef<HTMLDialogElement>(null);
  const body = useRef<HTMLDivElement>(null);
  const heading = useId();
  useEffect(() => {
    const dialog = ref.current!;
    const before = document.activeElement;
    dialog.showModal();
    // The browser would choose the button that closes it.
    body.current?.querySelector<HTMLElement>("input, textarea, select")?.focus();
    return () => {
      dialog.close();
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={ref}
      aria-labelledby={heading}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => event.target === ref.current && onClose()}
      className={clsx(
        "m-auto max-h-[min(90dvh,800px)] w-[calc(100%-2rem)] animate-appear rounded-xl border border-line bg-surface p-0 text-ink shadow-float",
        wide ? "max-w-3xl" : "max-w-lg",
      )}
    >
      <div className="flex max-h-[min(90dvh,800px)] flex-col">
        <header className="flex items-center justify-between gap-4 border-b border-line px-5 py-3">
          <h2 id={heading} className="text-lg font-semibold">
            {title}
          </h2>
          <IconButton label="Close" size="small" onClick={onClose}>
            <X size={16} />
          </IconButton>
        </header>
        <div ref={body} className="grid gap-4 overflow-y-auto px-5 py-4">
          {children}
        </div>
        {footer && <footer className="flex flex-wrap items-center justify-end gap-2 border-t border-line px-5 py-3">{footer}</footer>}
      </div>
    </dialog>
  );
}

interface ConfirmProps {
  title: string;
  /** What will happen and what will not. */
  children: ReactNode;
  action: string;
  danger?: boolean;
  busy?: boolean;
  error?: unknown;
  onConfirm: () => void;
  onClose: () => void;
}

/** Asks once more before something that is hard to take back. */
export function Confirm({ title, children, action, danger, busy, error, onConfirm, onClose }: ConfirmProps) {
  return (
    <Dialog
      title={title}
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Keep as it is</Button>
          <Button look={danger ? "danger" : "primary"} busy={busy} onClick={onConfirm}>
            {action}
          </Button>
        </>
      }
    >
      <div className="grid gap-2 text-sm text-soft">{children}</div>
      {error ? <Problem error={problemOf(error)} /> : null}
    </Dialog>
  );
}
