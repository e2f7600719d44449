import { type RefObject, useEffect, useRef } from "react";

/** Puts the focus into a dialog's first field; the browser would choose its close button. */
export function useFirstField(): RefObject<HTMLFormElement | null> {
  const form = useRef<HTMLFormElement>(null);
  useEffect(() => form.current?.querySelector<HTMLElement>("input, textarea, select")?.focus(), []);
  return form;
}
