import { useBlocker } from "@tanstack/react-router";
import clsx from "clsx";
import { useCallback, useEffect, useRef, useState } from "react";

import { Button } from "@/ui/Button";
import { Confirm } from "@/ui/Dialog";

/** A value that a person changes, apart from what is stored until it is saved. */
export interface Edited<T> {
  value: T;
  change: (part: Partial<T>) => void;
  dirty: boolean;
  /** It was changed elsewhere since the editing began. */
  stale: boolean;
  /** Takes what is stored, and drops the changes. */
  reset: () => void;
  /** From now on `value` is what is stored: nothing is lost by leaving. */
  saved: () => void;
  /** For the guard: whether leaving now would lose something. */
  unsaved: () => boolean;
}

export function useEdited<T extends object>(stored: T): Edited<T> {
  const text = JSON.stringify(stored);
  const [base, setBase] = useState(text);
  const [value, setValue] = useState(stored);
  const dirty = JSON.stringify(value) !== base;
  // A ref, since saving is followed by leaving before the next drawing.
  const losing = useRef(dirty);
  losing.current = dirty;
  const reset = useCallback(() => {
    setBase(text);
    setValue(JSON.parse(text) as T);
  }, [text]);
  useEffect(() => {
    if (!dirty && text !== base) reset();
  }, [dirty, text, base, reset]);
  return {
    value,
    change: (part) => setValue((old) => ({ ...old, ...part })),
    dirty,
    stale: text !== base,
    reset,
    saved: () => {
      losing.current = false;
      setBase(JSON.stringify(value));
    },
    unsaved: () => losing.current,
  };
}

/** Asks before a page is left that holds changes which are not saved. */
export function UnsavedGuard({ unsaved, what }: { unsaved: () => boolean; what: string }) {
  const blocker = useBlocker({ shouldBlockFn: unsaved, enableBeforeUnload: unsaved, withResolver: true });
  if (blocker.status !== "blocked") return null;
  return (
    <Confirm title="Leave without saving?" action="Leave" danger onConfirm={blocker.proceed} onClose={blocker.reset}>
      <p>What you have changed in {what} is not saved, and is lost if you leave.</p>
    </Confirm>
  );
}

interface SaveBarProps {
  edited: Pick<Edited<object>, "dirty" | "stale" | "reset">;
  busy: boolean;
  onSave: () => void;
  /** Something new is there to be saved, even if nothing was typed. */
  isNew?: boolean;
  deployed: boolean;
}

/** Save and discard, with what saving means for a team that runs. */
export function SaveBar({ edited, busy, onSave, isNew = false, deployed }: SaveBarProps) {
  const note = edited.stale && edited.dirty
    ? "Somebody has changed this meanwhile; saving replaces it."
    : edited.dirty
      ? deployed
        ? "Not saved. Once saved, it acts on the next message."
        : "Not saved."
      : "";
  return (
    <div className={clsx("-mx-4 -mb-4 flex flex-wrap items-center justify-end gap-2 rounded-b-lg border-t border-line bg-surface px-4 py-3", (edited.dirty || isNew) && "sticky bottom-0")}>
      <p aria-live="polite" className="min-w-0 flex-1 text-xs text-warn">
        {note}
      </p>
      <Button disabled={!edited.dirty} onClick={edited.reset}>
        Discard
      </Button>
      <Button look="primary" disabled={!edited.dirty && !isNew} busy={busy} onClick={onSave}>
        Save
      </Button>
    </div>
  );
}
