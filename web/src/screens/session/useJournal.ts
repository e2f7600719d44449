import { useEffect, useMemo, useSyncExternalStore } from "react";

import { useEvents, useLiveState } from "@/live/LiveProvider";

import { type JournalState, journalOf } from "./journal";

// Steps that come in quick succession are fetched together.
const TOGETHER = 250;

/** The steps of a session, kept up to date by its events. */
export function useJournal(sessionId: string): JournalState & { retry: () => void } {
  const journal = useMemo(() => journalOf(sessionId), [sessionId]);
  const timer = useMemo<{ id: ReturnType<typeof setTimeout> | undefined }>(() => ({ id: undefined }), []);
  const live = useLiveState() === "live";
  useEffect(() => {
    void journal.catchUp();
    return () => {
      clearTimeout(timer.id);
      timer.id = undefined;
    };
    // Again when the line is back: what happened meanwhile may have been missed.
  }, [journal, timer, live]);
  useEvents(["session.", "approval.", "checkpoint."], (event) => {
    if (event.data.session_id !== sessionId) return;
    timer.id ??= setTimeout(() => {
      timer.id = undefined;
      void journal.catchUp();
    }, TOGETHER);
  });
  const state = useSyncExternalStore(journal.subscribe, journal.snapshot);
  return { ...state, retry: () => void journal.catchUp() };
}
